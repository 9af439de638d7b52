package app

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/caddy-gw/gateway/internal/routing"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("gw", parseGlobalOption)
}

func parseGlobalOption(d *caddyfile.Dispenser, existing any) (any, error) {
	if existing != nil {
		d.Next()
		return nil, d.Err("gw: the global option is given twice")
	}
	a := new(App)
	if err := a.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "gw", Value: caddyconfig.JSON(a, nil)}, nil
}

// UnmarshalCaddyfile sets up the app from Caddyfile tokens. Syntax:
//
//	gw {
//		storage badger [<dir>]
//		admin_key      <key>
//		encryption_key <key> | file <path>
//		data_service_token <token>
//
//		trusted_custom_hosts <hosts...>
//		azure_identity       instance|app_service|workload
//		provider_identity    aws   instance|container|web_identity
//		provider_identity    azure instance|app_service|workload
//		header_prefix        <prefixes...>
//		block_inline_config  on|off
//		metric_models        <models...>
//		passthrough_paths    [<method>] <path> ...
//		cache_size           <size>
//		gc_headroom          <size>|off
//		cache_scope          workspace|organisation
//		max_inflight_bytes   <size>
//		max_inflight_calls   <number>
//		semantic_cache {
//			provider  <slug>
//			model     <name>
//			threshold <cosine>
//		}
//
//		logs {
//			retention      <duration>
//			size           <size>
//			queue_size     <size>
//			bodies         on|off
//			max_body       <size>
//			body_retention <duration>
//			body_size      <size>
//		}
//
//		audit_log {
//			output         <writer> ...
//			retention      <duration>
//			key            <key> | file <path>
//			country_header <name>
//		}
//
//		smtp {
//			address  <host>[:<port>]
//			from     <address>
//			tls      starttls|tls|off
//			username <name>
//			password <password>
//		}
//
//		alerts {
//			webhook <url> {
//				secret <secret>
//			}
//		}
//
//		jwt {
//			issuer    <iss>
//			audience  <aud...>
//			jwks_url  <urls...>
//			jwks_file <path>
//		}
//
//		prices_file <path>
//
//		# each may be given several times
//		alias <model> @<provider>/<model>|<config>
//		secrets <manager> {
//			<option> <values...>
//		}
//		price <provider> <model> {
//			<unit> <dollars>
//		}
//		provider <slug> {
//			type       <name>
//			base_url   <url>
//			api_key    <key>
//			<setting>  <value> # of the provider, such as aws_region
//			setting    <name> <value> # the same
//			header     <name> <value>
//			workspaces <ids or slugs...>
//			passthrough_paths [<method>] <path> ...
//		}
//	}
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the option's name
	if d.NextArg() {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		switch name := d.Val(); name {
		case "storage":
			if a.StorageRaw != nil {
				return d.Errf("%s is given twice", name)
			}
			if !d.NextArg() {
				return d.ArgErr()
			}
			driver := d.Val()
			unm, err := caddyfile.UnmarshalModule(d, "gw.storage."+driver)
			if err != nil {
				return err
			}
			a.StorageRaw = caddyconfig.JSONModuleObject(unm, "driver", driver, nil)
		case "secrets":
			if err := a.unmarshalSecrets(d); err != nil {
				return err
			}
		case "admin_key":
			if err := one(d, &a.AdminKey); err != nil {
				return err
			}
		case "data_service_token":
			if err := one(d, &a.DataServiceToken); err != nil {
				return err
			}
		case "encryption_key":
			if err := keyOrFile(d, &a.EncryptionKey, &a.EncryptionKeyFile); err != nil {
				return err
			}
		case "trusted_custom_hosts":
			if err := several(d, &a.TrustedCustomHosts); err != nil {
				return err
			}
		case "provider_identity":
			args := d.RemainingArgs()
			if len(args) != 2 {
				return d.ArgErr()
			}
			if a.ProviderIdentity[args[0]] != "" {
				return d.Errf("%s %s is given twice", name, args[0])
			}
			if a.ProviderIdentity == nil {
				a.ProviderIdentity = make(map[string]string)
			}
			a.ProviderIdentity[args[0]] = args[1]
		case "azure_identity":
			if err := one(d, &a.AzureIdentity); err != nil {
				return err
			}
		case "cache_size":
			if a.CacheSize != 0 {
				return d.Errf("%s is given twice", name)
			}
			if err := byteSize(d, &a.CacheSize); err != nil {
				return err
			}
		case "cache_scope":
			if err := one(d, &a.CacheScope); err != nil {
				return err
			}
		case "max_inflight_bytes":
			if a.MaxInflightBytes != 0 {
				return d.Errf("%s is given twice", name)
			}
			if err := byteSize(d, &a.MaxInflightBytes); err != nil {
				return err
			}
		case "max_inflight_calls":
			if a.MaxInflightCalls != 0 {
				return d.Errf("%s is given twice", name)
			}
			var text string
			if err := one(d, &text); err != nil {
				return err
			}
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || n < 1 {
				return d.Errf("%s: expected a number of calls, got %q", name, text)
			}
			a.MaxInflightCalls = n
		case "gc_headroom":
			if err := a.unmarshalHeadroom(d); err != nil {
				return err
			}
		case "semantic_cache":
			if a.SemanticCache != nil {
				return d.Errf("%s is given twice", name)
			}
			a.SemanticCache = new(SemanticCache)
			if err := a.SemanticCache.unmarshal(d); err != nil {
				return err
			}
		case "logs":
			if a.Logs != nil {
				return d.Errf("%s is given twice", name)
			}
			a.Logs = new(Logs)
			if err := a.Logs.unmarshal(d); err != nil {
				return err
			}
		case "smtp":
			if a.SMTP != nil {
				return d.Err("smtp is given twice")
			}
			a.SMTP = new(SMTP)
			if err := a.SMTP.unmarshal(d); err != nil {
				return err
			}
		case "alerts":
			if a.Alerts != nil {
				return d.Errf("%s is given twice", name)
			}
			a.Alerts = new(Alerts)
			if err := a.Alerts.unmarshal(d); err != nil {
				return err
			}
		case "jwt":
			if err := a.unmarshalJWT(d); err != nil {
				return err
			}
		case "audit_log":
			if a.AuditLog != nil {
				return d.Errf("%s is given twice", name)
			}
			a.AuditLog = new(AuditLog)
			if err := a.AuditLog.unmarshal(d); err != nil {
				return err
			}
		case "header_prefix":
			if err := several(d, &a.HeaderPrefixes); err != nil {
				return err
			}
		case "passthrough_paths":
			if err := several(d, &a.PassthroughPaths); err != nil {
				return err
			}
		case "metric_models":
			if err := several(d, &a.MetricModels); err != nil {
				return err
			}
		case "block_inline_config":
			var value string
			if a.BlockInlineConfig != nil {
				return d.Errf("%s is given twice", name)
			}
			if err := one(d, &value); err != nil {
				return err
			}
			if value != "on" && value != "off" {
				return d.Errf("block_inline_config: expected on or off, got %q", value)
			}
			on := value == "on"
			a.BlockInlineConfig = &on
		case "alias":
			if err := a.unmarshalAlias(d); err != nil {
				return err
			}
		case "prices_file":
			if err := one(d, &a.PricesFile); err != nil {
				return err
			}
		case "price":
			if err := a.unmarshalPrice(d); err != nil {
				return err
			}
		case "provider":
			if err := a.unmarshalProvider(d); err != nil {
				return err
			}
		default:
			return d.Errf("unrecognized subdirective %q", name)
		}
	}
	return nil
}

func (a *App) unmarshalHeadroom(d *caddyfile.Dispenser) error {
	if a.GCHeadroom != nil {
		return d.Errf("%s is given twice", d.Val())
	}
	a.GCHeadroom = new(int64)
	name, value := d.Val(), ""
	if err := one(d, &value); err != nil || value == "off" {
		return err
	}
	n, ok := parseSize(value)
	if !ok {
		return d.Errf("%s: expected a size such as 40MiB, or off, got %q", name, value)
	}
	*a.GCHeadroom = n
	return nil
}

// keyOrFile parses a key, or the path of a file that holds it, which may be given once.
func keyOrFile(d *caddyfile.Dispenser, key, file *string) error {
	name := d.Val()
	if *key != "" || *file != "" {
		return d.Errf("%s is given twice", name)
	}
	switch args := d.RemainingArgs(); {
	case len(args) == 1 && args[0] != "" && args[0] != "file":
		*key = args[0]
	case len(args) == 2 && args[0] == "file" && args[1] != "":
		*file = args[1]
	default:
		return d.ArgErr()
	}
	return noBlock(d, name)
}

func (a *App) unmarshalProvider(d *caddyfile.Dispenser) error {
	var slug string
	if !d.NextArg() {
		return d.ArgErr()
	}
	if slug = d.Val(); !validSlug.MatchString(slug) {
		return d.Errf("provider %q: a slug is letters, digits, _ and - only", slug)
	}
	if a.Providers[slug] != nil {
		return d.Errf("provider %s is given twice", slug)
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	p := new(Provider)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		var err error
		switch d.Val() {
		case "type":
			err = one(d, &p.Type)
		case "base_url":
			err = one(d, &p.BaseURL)
		case "api_key":
			err = one(d, &p.APIKey)
		case "header":
			args := d.RemainingArgs()
			if len(args) != 2 {
				return d.ArgErr()
			}
			if p.Headers == nil {
				p.Headers = make(http.Header)
			}
			p.Headers.Add(args[0], args[1])
			err = noBlock(d, "header")
		case "setting":
			args := d.RemainingArgs()
			if len(args) != 2 {
				return d.ArgErr()
			}
			if err = p.set(d, args[0], args[1]); err == nil {
				err = noBlock(d, "setting")
			}
		case "workspaces":
			err = several(d, &p.Workspaces)
		case "passthrough_paths":
			err = several(d, &p.PassthroughPaths)
		default:
			name := d.Val()
			if _, ok := slices.BinarySearch(routing.VendorKeys, name); !ok {
				return d.Errf("unrecognized subdirective %q", name)
			}
			var value string
			if err = one(d, &value); err == nil {
				err = p.set(d, name, value)
			}
		}
		if err != nil {
			return err
		}
	}
	if p.Type == "" {
		return d.Errf("provider %s: type is required, such as openai", slug)
	}
	if a.Providers == nil {
		a.Providers = make(map[string]*Provider)
	}
	a.Providers[slug] = p
	return nil
}

// set sets one of the provider's own settings.
func (p *Provider) set(d *caddyfile.Dispenser, name, value string) error {
	if _, twice := p.Settings[name]; twice {
		return d.Errf("setting %s is given twice", name)
	}
	if p.Settings == nil {
		p.Settings = make(map[string]string)
	}
	p.Settings[name] = value
	return nil
}

// one parses the single argument of a subdirective that may occur once.
func one(d *caddyfile.Dispenser, to *string) error {
	name := d.Val()
	if *to != "" {
		return d.Errf("%s is given twice", name)
	}
	if !d.AllArgs(to) {
		return d.ArgErr()
	}
	if *to == "" {
		return d.Errf("%s: the value is empty", name)
	}
	return noBlock(d, name)
}

// several parses the arguments of a subdirective that may occur repeatedly.
func several(d *caddyfile.Dispenser, to *[]string) error {
	name, args := d.Val(), d.RemainingArgs()
	if len(args) == 0 {
		return d.ArgErr()
	}
	*to = append(*to, args...)
	return noBlock(d, name)
}

func noBlock(d *caddyfile.Dispenser, name string) error {
	if d.NextBlock(d.Nesting()) {
		return d.Errf("%s takes no block", name)
	}
	return nil
}

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*App)(nil)
	_ caddy.Module          = (*App)(nil)
)

// eachOnce reads the block of an option that has no arguments: read reads what follows the name of
// a subdirective, of which each may be given once.
func eachOnce(d *caddyfile.Dispenser, read func(name string) error) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	given := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		if given[name] {
			return d.Errf("%s is given twice", name)
		}
		given[name] = true
		if err := read(name); err != nil {
			return err
		}
	}
	return nil
}
