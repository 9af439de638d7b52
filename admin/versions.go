package admin

// versions adds GET path/{param}/versions, the list of a row's versions. Only those of the page are read,
// as their texts may be long.
func versions[Row, Version, V any](a *API, r *resource[Row], all func(*Row) []Version, show func(*call, *Row, []Version) ([]V, error)) {
	readList(a, r, "/versions", "List the versions of "+r.aNoun(), func(c *call, row *Row, page Paging) (*listOutput[V], error) {
		of := all(row)
		first, end := page.bounds(len(of))
		shown, err := show(c, row, of[first:end])
		if err != nil {
			return nil, err
		}
		return &listOutput[V]{List[V]{Object: "list", Total: len(of), Data: append([]V{}, shown...)}}, nil
	})
}

// each shows versions one by one.
func each[Row, Version, V any](show func(*call, *Row, *Version) (*V, error)) func(*call, *Row, []Version) ([]V, error) {
	return func(c *call, row *Row, versions []Version) (shown []V, err error) {
		for i := range versions {
			v, err := show(c, row, &versions[i])
			if err != nil {
				return nil, err
			}
			shown = append(shown, *v)
		}
		return shown, nil
	}
}

// version adds GET path/{param}/versions/{version_id}.
func version[Row, Version, V any](a *API, r *resource[Row], find func(row *Row, idOrNumber string) (*Version, bool), show func(*call, *Row, *Version) (*V, error)) {
	read(a, r, "/versions/{version_id}", "Get a version of "+r.aNoun(), func(c *call, row *Row) (*V, error) {
		which := c.item.query["version_id"]
		v, ok := find(row, which)
		if !ok {
			return nil, notFound("Version", which)
		}
		return show(c, row, v)
	})
}
