package sigv4

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/caddy-gw/gateway/internal/sts"
	"github.com/caddy-gw/gateway/providers"
)

const (
	settingType     = "aws_auth_type"
	settingRole     = "aws_role_arn"
	settingExternal = "aws_external_id"
)

// Values of aws_auth_type that need a login.
const (
	assumedRole = "assumedRole"
	serviceRole = "serviceRole"
)

// Keys returns the access keys that a call is signed with: those of its login, or its own. Without an id, its
// credential is something else.
func Keys(c *providers.Call) (keys aws.Credentials, err error) {
	if logsIn(c) {
		t := providers.ReadRoleToken(c.Token)
		if t.AccessKeyID == "" { // or else what assumes the role would be sent itself
			return keys, &providers.RequestError{Param: "x-gw-aws-role-arn", Code: "not_supported", Message: "The role of provider " + c.Provider.Name + " was not assumed"}
		}
		return aws.Credentials{AccessKeyID: t.AccessKeyID, SecretAccessKey: t.SecretAccessKey, SessionToken: t.SessionToken}, nil
	}
	return ownKeys(c)
}

func is(c *providers.Call, way string) bool { return strings.EqualFold(c.Setting(settingType), way) }

// logsIn reports whether the keys that a call is signed with are obtained by a login.
func logsIn(c *providers.Call) bool {
	return c.Setting(settingRole) != "" || is(c, assumedRole) || is(c, serviceRole)
}

// Login assumes the role of a call: with its keys, or as what the gateway's machine is, whose keys it may also use as
// they are. nil: the call has its own keys.
func Login(c *providers.Call) (*providers.Login, error) {
	if !logsIn(c) {
		return nil, nil
	}
	role := sts.Role{ARN: c.Setting(settingRole), ExternalID: c.Setting(settingExternal)}
	region, err := Region(c)
	switch {
	case err != nil:
		return nil, err
	case role.ARN == "" && !is(c, serviceRole):
		return nil, c.Provider.Missing(settingRole)
	case role.ARN != "" && role.CheckARN() != "":
		return nil, &providers.RequestError{Param: "x-gw-aws-role-arn", Code: "invalid_setting", Message: "Invalid aws_role_arn: " + role.CheckARN()}
	case role.CheckExternalID() != "":
		return nil, &providers.RequestError{Param: "x-gw-aws-external-id", Code: "invalid_setting", Message: "Invalid aws_external_id: " + role.CheckExternalID()}
	}
	assumed := &providers.AssumedRole{Region: region, ARN: role.ARN, ExternalID: role.ExternalID}
	switch {
	case is(c, serviceRole) && !c.Machine:
		return nil, &providers.RequestError{
			Param: "x-gw-aws-auth-type", Code: "invalid_setting",
			Message: "aws_auth_type serviceRole is what the gateway's machine is, which only credentials may use that an API key of the organisation has saved",
		}
	case is(c, serviceRole), c.Machine && is(c, assumedRole) && keyless(c):
		assumed.Machine = true
		return &providers.Login{Role: assumed}, nil
	}
	keys, err := ownKeys(c)
	if err != nil {
		return nil, err
	}
	if keys.AccessKeyID == "" { // a Bedrock API key cannot assume a role, and what the machine is belongs to the operator
		return nil, c.Provider.Missing("aws_access_key_id")
	}
	assumed.Keys = providers.RoleToken{AccessKeyID: keys.AccessKeyID, SecretAccessKey: keys.SecretAccessKey, SessionToken: keys.SessionToken}
	return &providers.Login{Role: assumed}, nil
}

// keyless reports whether a call has no access keys.
func keyless(c *providers.Call) bool {
	return c.Setting("aws_access_key_id") == "" && c.Setting("aws_secret_access_key") == ""
}

// ownKeys returns the access keys of the credential of a call.
func ownKeys(c *providers.Call) (keys aws.Credentials, err error) {
	keys = aws.Credentials{
		AccessKeyID:     c.Setting("aws_access_key_id"),
		SecretAccessKey: c.Setting("aws_secret_access_key"),
		SessionToken:    c.Setting("aws_session_token"),
	}
	switch {
	case keys.AccessKeyID == "" && keys.SecretAccessKey != "":
		return keys, c.Provider.Missing("aws_access_key_id")
	case keys.AccessKeyID == "" && c.Key.Empty():
		return keys, c.Provider.Missing("aws_access_key_id")
	case keys.AccessKeyID != "" && keys.SecretAccessKey == "":
		keys.SecretAccessKey = c.Key.Reveal()
	}
	if keys.AccessKeyID != "" && keys.SecretAccessKey == "" {
		return keys, c.Provider.Missing("aws_secret_access_key")
	}
	return keys, nil
}
