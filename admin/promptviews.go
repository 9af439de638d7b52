package admin

import (
	"encoding/json"
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

// PromptSummary is a prompt in a list.
type PromptSummary struct {
	ID             string `json:"id" format:"uuid"`
	Slug           string `json:"slug"`
	Name           string `json:"name"`
	CollectionID   string `json:"collection_id" format:"uuid"`
	WorkspaceID    string `json:"workspace_id"`
	OrganisationID string `json:"organisation_id" format:"uuid"`
	Model          string `json:"model"`
	Status         string `json:"status" enum:"active,archived"`
	CreatedAt      string `json:"created_at" format:"date-time"`
	LastUpdatedAt  string `json:"last_updated_at" format:"date-time"`
	Object         string `json:"object" enum:"prompt"`
	SharingFields
}

// Prompt is a version of a prompt.
type Prompt struct {
	PromptSummary
	String       string             `json:"string" doc:"Of a chat the JSON of its messages, else the prompt of a text completion."`
	Parameters   object             `json:"parameters"`
	Version      int                `json:"prompt_version"`
	VersionID    string             `json:"prompt_version_id" format:"uuid"`
	VersionState string             `json:"prompt_version_status" enum:"active,archived"`
	Description  *string            `json:"prompt_version_description"`
	LabelID      *string            `json:"prompt_version_label_id"`
	LabelName    *string            `json:"prompt_version_label_name"`
	Labels       []promptLabel      `json:"prompt_version_labels"`
	VirtualKey   string             `json:"virtual_key"`
	Functions    objects            `json:"functions,omitempty"`
	Tools        objects            `json:"tools,omitempty"`
	ToolChoice   anyJSON            `json:"tool_choice,omitempty"`
	Metadata     object             `json:"template_metadata"`
	Raw          int                `json:"is_raw_template" enum:"0,1"`
	Components   variableComponents `json:"variable_components"`
}

type promptLabel struct {
	ID   string `json:"id" format:"uuid"`
	Name string `json:"name"`
}

// variableComponents are the names in a template.
type variableComponents struct {
	Partials         []string `json:"partials"`
	Sections         []string `json:"sections"`
	Variables        []string `json:"variables"`
	SectionVariables []string `json:"sectionVariables"`
	VariablePartials []string `json:"variablePartials"`
}

// PromptVersion is a version in the list of versions.
type PromptVersion struct {
	ID          string   `json:"id" format:"uuid"`
	PromptID    string   `json:"prompt_id" format:"uuid"`
	Template    template `json:"prompt_template"`
	Version     int      `json:"prompt_version"`
	Description *string  `json:"prompt_description"`
	LabelID     *string  `json:"label_id"`
	CreatedAt   string   `json:"created_at" format:"date-time"`
	Status      string   `json:"status" enum:"active,archived"`
	Object      string   `json:"object" enum:"prompt"`
}

type template struct {
	String     string `json:"string"`
	Parameters object `json:"parameters"`
	Model      string `json:"model"`
	VirtualKey string `json:"virtual_key"`
}

// JSON values of the caller, which are stored as they were sent.
type (
	object  json.RawMessage
	objects json.RawMessage
	anyJSON json.RawMessage
)

func keepJSON(to *[]byte, b []byte) error {
	*to = slices.Clone(b)
	if string(b) == "null" {
		*to = nil
	}
	return nil
}

func showJSON(b []byte, none string) ([]byte, error) {
	if len(b) == 0 {
		return []byte(none), nil
	}
	return b, nil
}

func (o *object) UnmarshalJSON(b []byte) error { return keepJSON((*[]byte)(o), b) }

// MarshalJSON returns the stored JSON.
func (o object) MarshalJSON() ([]byte, error) { return showJSON(o, "{}") }

// Schema returns the schema of an object.
func (object) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true, Nullable: true}
}

func (o *objects) UnmarshalJSON(b []byte) error { return keepJSON((*[]byte)(o), b) }

// MarshalJSON returns the stored JSON.
func (o objects) MarshalJSON() ([]byte, error) { return showJSON(o, "[]") }

// Schema returns the schema of an array of objects.
func (objects) Schema(huma.Registry) *huma.Schema {
	most := 128
	return &huma.Schema{Type: huma.TypeArray, Nullable: true, MaxItems: &most, Items: &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}}
}

func (o *anyJSON) UnmarshalJSON(b []byte) error { return keepJSON((*[]byte)(o), b) }

// MarshalJSON returns the stored JSON.
func (o anyJSON) MarshalJSON() ([]byte, error) { return showJSON(o, "null") }

// Schema returns the schema of an object or a string.
func (anyJSON) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeObject, AdditionalProperties: true, Nullable: true}, {Type: huma.TypeString}}}
}

// PromptFields are the fields of both create and update.
type PromptFields struct {
	CollectionID string            `json:"collection_id,omitempty" maxLength:"255" doc:"Id or slug; default: the workspace's default collection."`
	Parameters   Optional[object]  `json:"parameters,omitempty" doc:"Parameters of the call; its member variables has values of variables that a call leaves out."`
	Functions    Optional[objects] `json:"functions,omitempty"`
	Tools        Optional[objects] `json:"tools,omitempty"`
	ToolChoice   Optional[anyJSON] `json:"tool_choice,omitempty"`
	Model        Optional[string]  `json:"model,omitempty" maxLength:"512"`
	Description  Optional[string]  `json:"version_description,omitempty" maxLength:"1024"`
	Metadata     Optional[object]  `json:"template_metadata,omitempty"`
	OtherName    Optional[object]  `json:"prompt_metadata,omitempty" doc:"The same as template_metadata."`
	Raw          *flag             `json:"is_raw_template,omitempty" doc:"Whether the string is rendered before it is parsed as JSON."`
}

type createPrompt struct {
	PromptFields
	Name        string `json:"name" minLength:"1" maxLength:"255"`
	String      string `json:"string" maxLength:"524288"`
	VirtualKey  string `json:"virtual_key" maxLength:"255" doc:"What answers completions: a virtual key, @slug of a saved provider, or a config."`
	WorkspaceID string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; default: the caller's workspace, or the default one."`
}

type updatePrompt struct {
	PromptFields
	Patch      flag    `json:"patch,omitempty" doc:"Whether the new version keeps what is left out from the one before."`
	Name       *string `json:"name,omitempty" minLength:"1" maxLength:"255"`
	String     *string `json:"string,omitempty" maxLength:"524288"`
	VirtualKey *string `json:"virtual_key,omitempty" maxLength:"255"`
}

// createdPrompt is the response to POST.
type createdPrompt struct {
	ID        string `json:"id" format:"uuid"`
	Slug      string `json:"slug"`
	VersionID string `json:"version_id" format:"uuid"`
	Object    string `json:"object" enum:"prompt,partial"`
}

type updatedPrompt struct {
	ID        string `json:"id" format:"uuid"`
	Slug      string `json:"slug"`
	VersionID string `json:"prompt_version_id" format:"uuid" doc:"Of the newest version."`
}

type makeDefault struct {
	Version int `json:"version" minimum:"1"`
}

type labelVersion struct {
	LabelID *string `json:"label_id,omitempty" nullable:"true" maxLength:"255" doc:"The label that the version gets; another version loses it. null: it loses its labels."`
	Remove  flag    `json:"remove,omitempty" doc:"Whether the version loses the label, and keeps its others."`
}
