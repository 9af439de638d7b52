package awssm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/sts"
	"github.com/caddy-gw/gateway/secrets"
)

// Identities that a gateway on AWS can have.
const (
	instance    = "instance"     // the role of an EC2 instance, by its metadata service (IMDSv2)
	container   = "container"    // the role of an ECS task or of an EKS pod identity
	webIdentity = "web_identity" // the role of a Kubernetes service account, by STS
)

const (
	metadataService  = "http://169.254.169.254"
	containerService = "http://169.254.170.2"
	// metadataTimeout bounds requests to services on the machine, which are near or not there.
	metadataTimeout = 5 * time.Second
)

// Addresses of AWS_CONTAINER_CREDENTIALS_FULL_URI: those of ECS and of EKS, over IPv4 and IPv6.
var containerHosts = map[string]bool{"169.254.170.2": true, "169.254.170.23": true, "[fd00:ec2::23]": true}

var roleName = regexp.MustCompile(`^[\w+=,.@-]{1,64}$`)

// An Identity is what the machine or the workload of the gateway is for AWS. Its credentials end,
// and are fetched again shortly before.
type Identity struct {
	way  string
	uri  string            // of the container's credentials
	vars map[string]string // of the environment

	tokens secrets.Tokens
}

// NewIdentity returns the identity that the operator chose, instance, container or web_identity, which the platform
// announces by the environment.
func NewIdentity(way string) (id *Identity, err error) {
	id = &Identity{way: way}
	switch way {
	case instance:
	case container:
		if id.uri, err = containerURI(); err == nil {
			id.vars = map[string]string{
				"token": os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN"), "file": os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
			}
		}
	case webIdentity:
		id.vars, err = secrets.Environment("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE")
	default:
		return nil, fmt.Errorf("identity: expected %s, %s or %s, got %q", instance, container, webIdentity, way)
	}
	if err != nil {
		return nil, fmt.Errorf("identity %s: %w", way, err)
	}
	return id, nil
}

// containerURI returns where a container gets its credentials.
func containerURI() (string, error) {
	if path := os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); strings.HasPrefix(path, "/") {
		return containerService + path, nil
	}
	full := os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if full == "" {
		return "", errors.New("neither AWS_CONTAINER_CREDENTIALS_RELATIVE_URI nor AWS_CONTAINER_CREDENTIALS_FULL_URI is set in the environment")
	}
	u, err := url.Parse(full)
	if err != nil || u.Scheme != "http" || u.User != nil || !containerHosts[u.Host] {
		return "", errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI: expected a URL of 169.254.170.2, 169.254.170.23 or [fd00:ec2::23]")
	}
	return u.String(), nil
}

// keys are temporary credentials, as AWS's services on the machine send them.
type keys struct {
	AccessKeyID     string `json:"AccessKeyId"`
	SecretAccessKey string
	Token           string
	Expiration      time.Time
}

// Format keeps the credentials out of texts.
func (keys) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(credentials.Masked)) }

func (k *keys) complete() bool {
	return k.AccessKeyID != "" && k.SecretAccessKey != "" && k.Token != "" && !k.Expiration.IsZero()
}

func (k *keys) credentials() aws.Credentials {
	return aws.Credentials{AccessKeyID: k.AccessKeyID, SecretAccessKey: k.SecretAccessKey, SessionToken: k.Token, CanExpire: true, Expires: k.Expiration}
}

// kept returns the credentials as a token that is kept until they end.
func (k *keys) kept() (secrets.Token, error) {
	b, err := json.Marshal(*k)
	return secrets.Token{Secret: credentials.NewSecret(string(b)), Until: k.Expiration}, err
}

// with calls do with the credentials of a token.
func with(do func(aws.Credentials) (credentials.Secret, error)) func(token string) (credentials.Secret, error) {
	return func(token string) (credentials.Secret, error) {
		var k keys
		if err := json.Unmarshal([]byte(token), &k); err != nil {
			return credentials.Secret{}, err
		}
		return do(k.credentials())
	}
}

// use calls do with the credentials of the identity, and again with new ones if they are refused.
func (id *Identity) use(ctx context.Context, region string, c *secrets.Clients, do func(aws.Credentials) (credentials.Secret, error)) (credentials.Secret, error) {
	key := secrets.KeyOf(id.way)
	if id.way == webIdentity {
		key = secrets.KeyOf(id.way, region)
	}
	return id.tokens.Use(ctx, key, c.Now(), func(ctx context.Context) (t secrets.Token, err error) {
		k, err := id.fetch(ctx, region, c)
		if err != nil {
			return t, err
		}
		return k.kept()
	}, with(do))
}

// fetch requests the credentials of the identity.
func (id *Identity) fetch(ctx context.Context, region string, c *secrets.Clients) (*keys, error) {
	switch id.way {
	case instance:
		return ofInstance(ctx, c.Metadata)
	case container:
		return id.ofContainer(ctx, c.Metadata)
	}
	return id.ofServiceAccount(ctx, region, c)
}

// Keys requests the credentials of the identity, or with the ARN of a role those of that role, which it assumes in a
// region. They say when they end. externalID, if it is not "", is what the role's owner expects.
func (id *Identity) Keys(ctx context.Context, region, role, externalID string, c *secrets.Clients) (aws.Credentials, error) {
	k, err := id.fetch(ctx, region, c)
	if err == nil && role != "" {
		k, err = assume(ctx, c, region, k.credentials(), sts.Role{ARN: role, ExternalID: externalID})
	}
	if err != nil {
		return aws.Credentials{}, err
	}
	return k.credentials(), nil
}

// useRole is use with the credentials of another role, which the identity assumes.
func (id *Identity) useRole(ctx context.Context, auth secrets.Auth, c *secrets.Clients, do func(aws.Credentials) (credentials.Secret, error)) (credentials.Secret, error) {
	role, region := roleOf(auth), auth[fieldRegion]
	return id.tokens.Use(ctx, secrets.KeyOf("role", role.ARN, role.ExternalID, region), c.Now(), func(ctx context.Context) (t secrets.Token, err error) {
		_, err = id.use(ctx, region, c, func(own aws.Credentials) (none credentials.Secret, err error) {
			k, err := assume(ctx, c, region, own, role)
			if err == nil {
				t, err = k.kept()
			}
			return none, err
		})
		return t, err
	}, with(do))
}

// ofInstance asks the metadata service of an EC2 instance in version 2, which wants a token that
// forged requests and redirects cannot have. There is no way back to version 1.
func ofInstance(ctx context.Context, c *http.Client) (*keys, error) {
	token, err := askMetadata(ctx, c, http.MethodPut, metadataService+"/latest/api/token", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
	if err != nil {
		return nil, err
	}
	const roles = metadataService + "/latest/meta-data/iam/security-credentials/"
	ask := func(address string) ([]byte, error) {
		return askMetadata(ctx, c, http.MethodGet, address, "X-Aws-Ec2-Metadata-Token", string(token))
	}
	list, err := ask(roles)
	if err != nil {
		return nil, err
	}
	name, _, _ := strings.Cut(strings.TrimSpace(string(list)), "\n")
	if !roleName.MatchString(name) {
		return nil, errNoKeys
	}
	answer, err := ask(roles + name)
	if err != nil {
		return nil, err
	}
	if code := gjson.GetBytes(answer, "Code").Str; code != "Success" {
		return nil, &secrets.Error{What: "login", Status: http.StatusOK, Code: secrets.Code(code)}
	}
	return parse(answer)
}

// ofContainer asks the agent of ECS, or of EKS pod identities.
func (id *Identity) ofContainer(ctx context.Context, c *http.Client) (*keys, error) {
	token := id.vars["token"]
	if file := id.vars["file"]; file != "" {
		var err error
		if token, err = secrets.ReadToken(file); err != nil {
			return nil, err
		}
	}
	answer, err := askMetadata(ctx, c, http.MethodGet, id.uri, "Authorization", token)
	if err != nil {
		return nil, err
	}
	return parse(answer)
}

// errNoKeys means that an answer has no credentials.
var errNoKeys = &secrets.Error{What: "login", Status: http.StatusOK, Code: "without_credentials"}

func parse(answer []byte) (*keys, error) {
	k := new(keys)
	if err := json.Unmarshal(answer, k); err != nil || !k.complete() {
		return nil, errNoKeys
	}
	return k, nil
}

func askMetadata(ctx context.Context, c *http.Client, method, address, header, value string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	if value != "" {
		q.Header.Set(header, value)
	}
	status, answer, err := secrets.Do(c, q)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, &secrets.Error{What: "login", Status: status, Code: secrets.Code(gjson.GetBytes(answer, "code").Str)}
	}
	return answer, nil
}
