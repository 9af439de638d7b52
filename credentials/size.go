package credentials

// The size of a row is that of what may be long in it, in bytes. All rows are in memory, and who may make
// one may make many.

func (k *APIKey) size() (size int) {
	size = len(k.Description) + len(k.Metadata)
	for _, address := range k.AlertEmails {
		size += len(address)
	}
	return size
}

func (c *Credential) size() int {
	return len(c.CustomHost) + len(c.ModelConfig) + len(c.Settings) + len(c.Sealed)
}

func (v *VirtualKey) size() int { return v.Credential.size() + len(v.Note) }

func (i *Integration) size() int {
	size := i.Credential.size() + len(i.Description) + len(i.Adjustments)
	for name, value := range i.Tags {
		size += len(name) + len(value)
	}
	for n := range i.Models {
		m := &i.Models[n]
		size += len(m.Slug) + len(m.BaseModel) + len(m.Pricing) + len(m.Adjustments) + len(m.CustomHost) + len(m.Headers)
		for name, hint := range m.Hints {
			size += len(name) + len(hint)
		}
	}
	return size
}
