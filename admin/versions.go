package admin

// versions adds GET path/{param}/versions, the list of a row's versions.
func versions[Row, Version, V any](a *API, r *resource[Row], all func(*Row) []Version, show func(*call, *Row, *Version) (*V, error)) {
	readList(a, r, "/versions", "List the versions of "+r.aNoun(), func(c *call, row *Row) ([]*V, error) {
		of := all(row)
		shown := make([]*V, len(of))
		for i := range of {
			var err error
			if shown[i], err = show(c, row, &of[i]); err != nil {
				return nil, err
			}
		}
		return shown, nil
	})
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
