// Package sagemaker provides the endpoints of Amazon SageMaker, which serve models of any kind in the models' own
// forms: calls of InvokeEndpoint, InvokeEndpointWithResponseStream and InvokeEndpointAsync pass through, signed.
//
// Its settings are aws_region and those of package sigv4. The others become the headers of the call that SageMaker
// documents for InvokeEndpoint.
package sagemaker

import (
	"net/http"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/sigv4"
	"github.com/caddy-gw/gateway/providers"
)

func init() { providers.Register(provider()) }

func provider() providers.Provider {
	return providers.Provider{
		Name:     "sagemaker",
		BaseURL:  "https://runtime.sagemaker.{aws_region}.amazonaws.com",
		PassOnly: true, NoStreamUsage: true,
		Login: sigv4.Login,
		Sign:  sign,
		Headers: map[string]string{
			"amzn_sagemaker_custom_attributes":         "X-Amzn-Sagemaker-Custom-Attributes",
			"amzn_sagemaker_enable_explanations":       "X-Amzn-Sagemaker-Enable-Explanations",
			"amzn_sagemaker_inference_component":       "X-Amzn-Sagemaker-Inference-Component",
			"amzn_sagemaker_inference_id":              "X-Amzn-Sagemaker-Inference-Id",
			"amzn_sagemaker_session_id":                "X-Amzn-Sagemaker-Session-Id",
			"amzn_sagemaker_target_container_hostname": "X-Amzn-Sagemaker-Target-Container-Hostname",
			"amzn_sagemaker_target_model":              "X-Amzn-Sagemaker-Target-Model",
			"amzn_sagemaker_target_variant":            "X-Amzn-Sagemaker-Target-Variant",
		},
		Passes: credentials.Paths{
			{Method: http.MethodPost, Path: "/v1/endpoints/*/invocations"},
			{Method: http.MethodPost, Path: "/v1/endpoints/*/invocations-response-stream"},
			{Method: http.MethodPost, Path: "/v1/endpoints/*/async-invocations"},
		},
	}
}

// sign signs a call, which AWS takes with access keys only.
func sign(c *providers.Call, r *providers.Request) error {
	keys, err := sigv4.Keys(c)
	switch {
	case err != nil:
		return err
	case keys.AccessKeyID == "":
		return c.Provider.Missing("aws_access_key_id")
	}
	return sigv4.Sign(c, r, "sagemaker", keys)
}
