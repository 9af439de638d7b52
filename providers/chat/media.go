package chat

import "strings"

// Media returns the media type of a part: the one it states, or one derived from where it is, from its
// name or its first bytes, or the usual one of its kind.
func (p *Part) Media(where string) string {
	switch {
	case p.MediaType != "" && p.MediaType != "application/octet-stream":
		return p.MediaType
	case strings.Contains(where, "youtube.com/") || strings.Contains(where, "youtu.be/"):
		return "video/mp4"
	}
	for _, name := range []string{where, p.Name.Text()} {
		name, _, _ = strings.Cut(name, "?")
		if t := byEnding[strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])]; t != "" {
			return t
		}
	}
	for _, magic := range byStart {
		if strings.HasPrefix(string(p.Data[:min(len(p.Data), 8)]), magic[0]) {
			return magic[1]
		}
	}
	return map[PartKind]string{Image: "image/jpeg", File: "application/pdf", Audio: "audio/wav"}[p.Kind]
}

var byEnding = map[string]string{
	"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif", "heic": "image/heic",
	"heif": "image/heif", "pdf": "application/pdf", "txt": "text/plain", "md": "text/markdown", "csv": "text/csv", "html": "text/html",
	"docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	"pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	"xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	"xml":  "text/xml", "json": "application/json", "mp3": "audio/mp3", "wav": "audio/wav", "flac": "audio/flac", "ogg": "audio/ogg",
	"aac": "audio/aac", "m4a": "audio/mp4", "mp4": "video/mp4", "mov": "video/quicktime", "webm": "video/webm", "mpeg": "video/mpeg",
}

// byStart has the first bytes of file types, in base64.
var byStart = [][2]string{{"iVBORw", "image/png"}, {"/9j/", "image/jpeg"}, {"R0lGOD", "image/gif"}, {"UklGR", "image/webp"}, {"JVBERi", "application/pdf"}}
