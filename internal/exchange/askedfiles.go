package exchange

import (
	"bytes"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

const (
	bytesOfMedia = 16  // of a file in base64, that make a token at least
	shortData    = 512 // bytes, which may be text
)

// Providers take the data of a file for one only where the file is part of a message. The same data anywhere
// else, as in a text, a schema of a tool or the arguments of a call, is text to the model, and costs what text
// does. So only members that are reached by these are files:
var (
	// Members of a body that have messages, or files themselves.
	messageMembers = setOf("messages", "input", "item", "contents", "system", "systemInstruction", "system_instruction", "document", "image", "images")

	// Members of a message that have parts, and of parts that have files.
	partMembers = setOf("content", "parts", "output", "toolResult", "source", "file", "input_audio", "inlineData", "inline_data",
		"image_url", "document_url", "video_url", "audio_url", "image", "document", "video", "audio")

	// Members with data: base64, or a URL with base64.
	fileMembers = setOf("url", "data", "bytes", "file_data", "image_url", "document_url", "video_url", "audio_url", "image", "images")
)

// Beginnings of images in base64: PNG, JPEG, GIF and WebP.
var imageBeginnings = [][]byte{[]byte("iVBORw0KGgo"), []byte("/9j/"), []byte("R0lGOD"), []byte("UklGR")}

// files takes the data of files out of the text. An image counts as one, and another file by its size.
func (c *content) files(body []byte) {
	r := jsonscan.NewReader(body)
	var images int64
	r.Object(func(key jsonscan.Key) {
		if name := key.Bytes(); messageMembers[string(name)] {
			c.parts(r, fileMembers[string(name)], &images)
		}
	})
	c.images = max(c.images, images)
}

// parts looks at a message, a part of one, or a list of them. A string is data if file is set.
func (c *content) parts(r *jsonscan.Reader, file bool, images *int64) {
	switch r.Kind() {
	case jsonscan.Array:
		r.Array(func() { c.parts(r, file, images) })
	case jsonscan.Object:
		r.Object(func(key jsonscan.Key) {
			if name := key.Bytes(); fileMembers[string(name)] || partMembers[string(name)] {
				c.parts(r, fileMembers[string(name)], images)
			}
		})
	case jsonscan.String:
		if raw := r.Value(); file && len(raw) > shortData {
			c.file(raw[1:len(raw)-1], images)
		}
	}
}

// file looks at the data of a file.
func (c *content) file(data []byte, images *int64) {
	if bytes.HasPrefix(data, []byte("data:")) {
		const head = 128
		_, after, found := bytes.Cut(data[:min(len(data), head)], []byte(";base64,"))
		if !found {
			return
		}
		data = data[min(len(data), head)-len(after):]
	}
	if len(data) < shortData || !isBase64(data) {
		return
	}
	c.text -= int64(len(data))
	if c.data != nil {
		*c.data = append(*c.data, data)
	}
	for _, begins := range imageBeginnings {
		if bytes.HasPrefix(data, begins) {
			*images++
			return
		}
	}
	c.tokens += int64(len(data)) / bytesOfMedia
}

var base64Bytes = func() (table [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=") {
		table[c] = true
	}
	return table
}()

// isBase64 reports whether the inside of a string of JSON is base64.
func isBase64(data []byte) bool {
	for i, c := range data {
		if !base64Bytes[c] && (c != '\\' || i+1 == len(data) || data[i+1] != '/') {
			return false
		}
	}
	return true
}
