package bedrock

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"strings"

	"github.com/caddy-gw/gateway/providers"
)

// A folder is the part of a bucket that the files of the gateway are in. No call reads or
// writes anything else. The key of a file has all that is asked of it:
//
//	<prefix>/<purpose>/<model, or ->/<unique>/<name>
//
// A job writes its output to <prefix>/batch_output/<model>/<job>/<name of its input>.out.
type folder struct{ bucket, prefix string }

const (
	defaultPrefix = "gateway-files"
	purposeBatch  = "batch"
	purposeOutput = "batch_output"
	outputSuffix  = ".jsonl.out"
	noModel       = "-"
)

var (
	validBucket  = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	validPrefix  = regexp.MustCompile(`^[a-zA-Z0-9!_.*'()-]+(/[a-zA-Z0-9!_.*'()-]+)*$`)
	validPurpose = regexp.MustCompile(`^[a-z][a-z_-]{0,31}$`)
)

func folderOf(c *providers.Call) (f folder, err error) {
	f.bucket = c.Setting("aws_s3_bucket")
	f.prefix = strings.Trim(c.Setting("aws_s3_object_key"), "/")
	if f.prefix == "" {
		f.prefix = defaultPrefix
	}
	switch {
	case f.bucket == "":
		return f, c.Provider.Missing("aws_s3_bucket")
	case !validBucket.MatchString(f.bucket) || strings.Contains(f.bucket, ".."):
		return f, &providers.RequestError{Param: "x-gw-aws-s3-bucket", Code: "invalid_setting", Message: "Invalid aws_s3_bucket: expected the name of a bucket"}
	case !validPrefix.MatchString(f.prefix) || len(f.prefix) > 256 || dots(f.prefix):
		return f, &providers.RequestError{
			Param: "x-gw-aws-s3-object-key", Code: "invalid_setting",
			Message: "Invalid aws_s3_object_key: expected the beginning of a key, of letters, digits, ! - _ . * ' ( ) and single slashes",
		}
	}
	return f, nil
}

// dots reports whether a segment would lead elsewhere in a URL ("." and "..").
func dots(key string) bool {
	for s := range strings.SplitSeq(key, "/") {
		if s == "." || s == ".." {
			return true
		}
	}
	return false
}

// A file is an object of a folder.
type file struct {
	folder
	purpose, model, unique, name string
}

func (f file) key() string {
	model := noModel
	if f.model != "" {
		model = segmentOf(f.model)
	}
	return strings.Join([]string{f.prefix, f.purpose, model, f.unique, f.name}, "/")
}

func (f file) id() string { return fileID("s3://" + f.bucket + "/" + f.key()) }

// results reports whether the file is the output of a job.
func (f file) results() bool {
	return f.purpose == purposeOutput && strings.HasSuffix(f.name, outputSuffix)
}

// fileID returns the id of an object: its S3 URI in base64, so that it can be part of a
// path.
func fileID(uri string) string { return "file-" + base64.RawURLEncoding.EncodeToString([]byte(uri)) }

// modelOfFile returns the model in the id of a file, or "".
func modelOfFile(id string) string {
	encoded, _ := strings.CutPrefix(id, "file-")
	uri, err := base64.RawURLEncoding.DecodeString(encoded)
	parts := strings.Split(string(uri), "/")
	if err != nil || len(parts) < 3 {
		return ""
	}
	model, ok := modelOf(parts[len(parts)-3])
	if !ok || model == noModel {
		return ""
	}
	return model
}

// file returns the file with the given id if it is in the folder.
func (f folder) file(id, param string) (file, error) {
	if encoded, ok := strings.CutPrefix(id, "file-"); ok {
		if uri, err := base64.RawURLEncoding.DecodeString(encoded); err == nil {
			if key, ok := strings.CutPrefix(string(uri), "s3://"+f.bucket+"/"); ok {
				if out, ok := f.parse(key); ok {
					return out, nil
				}
			}
		}
	}
	return file{}, &providers.RequestError{
		Param: param, Code: "invalid_file_id",
		Message: "Invalid " + param + ": expected the id of a file that is kept for this provider, in the bucket and below the key of its settings",
	}
}

// parse parses a key.
func (f folder) parse(key string) (out file, ok bool) {
	rest, ok := strings.CutPrefix(key, f.prefix+"/")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 4 || !validPurpose.MatchString(parts[0]) || dots(rest) {
		return out, false
	}
	for _, p := range parts {
		if p == "" || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return out, false
		}
	}
	out = file{folder: f, purpose: parts[0], unique: parts[2], name: parts[3]}
	if parts[1] == noModel {
		return out, true
	}
	out.model, ok = modelOf(parts[1])
	return out, ok
}

// segmentOf encodes a model as one segment of a key. Few characters are safe in S3 keys;
// others are written as !3A.
func segmentOf(model string) string {
	return strings.NewReplacer("%", "!", "~", "!7E").Replace(escape(model))
}

func modelOf(segment string) (string, bool) {
	model, err := url.PathUnescape(strings.ReplaceAll(segment, "!", "%"))
	return model, err == nil && segmentOf(model) == segment
}
