package policies

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// A Policy is what rate-limit and usage-limit policies have in common: which calls they count,
// and what of them.
type Policy struct {
	ID             string      `json:"id"`
	Name           string      `json:"name,omitempty"`
	Description    string      `json:"description,omitempty"`
	Conditions     []Condition `json:"conditions"`
	GroupBy        []string    `json:"group_by"`
	Type           string      `json:"type"`
	Archived       bool        `json:"archived,omitempty"`
	WorkspaceID    string      `json:"workspace_id"`
	OrganisationID string      `json:"organisation_id"`
	// AllWorkspaces is set if the policy counts the calls of every workspace, and not only
	// of the one that it is listed under. Policies that a key of the organisation creates
	// without naming a workspace are of this kind.
	AllWorkspaces bool `json:"everywhere,omitempty"`
	// ByOrganisation: the organisation made it, so that nobody of the workspace changes it.
	ByOrganisation bool      `json:"by_organisation,omitempty"`
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// The types of policies, by what they count.
const (
	Requests = "requests"
	Tokens   = "tokens"
	Cost     = "cost" // of usage-limit policies only
)

// MaxValue bounds a policy's value; it is exact as a JSON number.
const MaxValue = 1<<53 - 1

// MaxDescription bounds the characters of a description.
const MaxDescription = 500

// validate returns the first error as a *FieldError.
func (p *Policy) validate() error {
	if len(p.Name) > MaxText {
		return &FieldError{"name", fmt.Sprintf("expected at most %d bytes", MaxText)}
	}
	if utf8.RuneCountInString(p.Description) > MaxDescription {
		return &FieldError{"description", fmt.Sprintf("expected at most %d characters", MaxDescription)}
	}
	if err := checkConditions(p.Conditions); err != nil {
		return err
	}
	return checkGroupBy(p.GroupBy)
}

// dependsOnTarget reports whether the policy can only be asked once the target of a call is known. What a
// call uses depends on its model.
func (p *Policy) dependsOnTarget(f Call) bool {
	if p.Type != Requests {
		return true
	}
	ofTarget := func(key string) bool { return ofTarget(key) || key == KeyPrompt && f.PromptByTarget() }
	for i := range p.Conditions {
		if ofTarget(p.Conditions[i].Key) {
			return true
		}
	}
	return slices.ContainsFunc(p.GroupBy, ofTarget)
}

// dependsOnModel reports whether the policy is about the models of calls.
func (p *Policy) dependsOnModel() bool {
	return slices.Contains(p.GroupBy, KeyModel) || slices.ContainsFunc(p.Conditions, func(c Condition) bool { return c.Key == KeyModel })
}

func ofTarget(key string) bool { return key == KeyProvider || key == KeyVirtualKey || key == KeyModel }
