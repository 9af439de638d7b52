package main_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// binary builds the command once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gw-binary-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "caddy")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// A process is a running command with the example's configuration on other ports.
type process struct {
	t    *testing.T
	home string
	url  string
	file string // the Caddyfile
	cmd  *exec.Cmd
	log  *os.File
}

func newProcess(t *testing.T) *process {
	t.Helper()
	example, err := os.ReadFile("../../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	p := &process{t: t, home: home, url: "http://" + gatewaytest.FreeAddress(t), file: filepath.Join(home, "Caddyfile")}
	echo := gatewaytest.FreeAddress(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(p.url, "http://"), ":")
	_, echoPort, _ := strings.Cut(echo, ":")
	text := strings.NewReplacer("http://:8080 {", "http://:"+port+" {", "http://:8081 {", "http://:"+echoPort+" {", "http://127.0.0.1:8081", "http://"+echo, "grace_period 30s", "grace_period 30s\n\tadmin off").
		Replace(string(example))
	if err := os.WriteFile(p.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

func (p *process) command(args ...string) *exec.Cmd {
	p.t.Helper()
	path, err := binary()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = p.home
	cmd.Env = append(os.Environ(), "HOME="+p.home, "XDG_DATA_HOME="+p.home, "XDG_CONFIG_HOME="+p.home)
	return cmd
}

func (p *process) start() {
	p.t.Helper()
	log, err := os.OpenFile(filepath.Join(p.home, "log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	p.log = log
	p.cmd = p.command("run", "--config", p.file)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		res, err := http.Get(p.url + "/v1/openapi.json")
		if err == nil {
			res.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("not ready after 30 seconds: %v\n%s", err, p.logs())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (p *process) logs() string {
	b, _ := os.ReadFile(filepath.Join(p.home, "log"))
	return string(b)
}

// kill ends the process like kill -9.
func (p *process) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.log.Close()
		p.cmd = nil
	}
}

func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("stopping: %v\n%s", err, p.logs())
	}
	p.log.Close()
	p.cmd = nil
}

// key reads the owner's key from the file that the first start created.
func (p *process) key() string {
	p.t.Helper()
	path := filepath.Join(p.home, "caddy", "gw.admin-key")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		p.t.Fatalf("%v %v\n%s", info, err, p.logs())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func (p *process) do(method, path, key, body string) (int, string) {
	p.t.Helper()
	status, answer, err := p.try(method, path, key, body)
	if err != nil {
		p.t.Fatal(err)
	}
	return status, answer
}

// try is do for a process that may be killed meanwhile: it returns an error if there is no whole
// answer.
func (p *process) try(method, path, key, body string) (status int, answer string, err error) {
	r, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("X-Gw-Api-Key", key)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

const hello = `{"model":"@echo/echo","messages":[{"role":"user","content":"Hello"}]}`

func TestTheFirstStartMakesAKeyAndACommandThatWorksAsPasted(t *testing.T) {
	p := newProcess(t)
	p.start()
	key := p.key()
	if strings.Contains(p.logs(), key) {
		t.Error("the key is in the log")
	}
	var try string
	for line := range strings.Lines(p.logs()) {
		if v := gjson.Get(line, "try"); v.Exists() {
			try = v.Str
		}
	}
	if !strings.HasPrefix(try, "curl "+p.url+"/v1/chat/completions ") {
		t.Fatalf("the log suggests %q", try)
	}
	if curl, err := exec.LookPath("curl"); err == nil {
		out, err := exec.Command("sh", "-c", strings.Replace(try, "curl", curl+" -s", 1)).CombinedOutput()
		if err != nil || gjson.GetBytes(out, "choices.0.message.content").Str != "Hello" {
			t.Errorf("%v %s", err, out)
		}
	}
	if status, body := p.do("POST", "/v1/chat/completions", key, hello); status != 200 || gjson.Get(body, "choices.0.message.content").Str != "Hello" {
		t.Errorf("%d %s", status, body)
	}
	for path, want := range map[string]int{"/chat/completions": 404, "/health": 200} {
		r, err := http.NewRequest(http.MethodGet, p.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "gateway.example.com" // clients may use any name
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != want || !gjson.ValidBytes(body) {
			t.Errorf("%s: %d %s %v", path, res.StatusCode, body, err)
		}
	}
	p.stop()
	before := p.logs()
	p.start()
	if again := strings.TrimPrefix(p.logs(), before); strings.Contains(again, "made the organisation owner") {
		t.Error("a second start made another key")
	}
	if status, body := p.do("POST", "/v1/chat/completions", key, hello); status != 200 {
		t.Errorf("after a restart: %d %s", status, body)
	}
}

func TestAnswersOfTheControlPlaneSurviveKill9(t *testing.T) {
	p := newProcess(t)
	p.start()
	owner := p.key()
	create := func(path, body string) string {
		t.Helper()
		status, answer := p.do("POST", path, owner, body)
		p.kill()
		if status != 200 {
			t.Fatalf("%s: %d %s", path, status, answer)
		}
		p.start()
		return answer
	}
	key := gjson.Get(create("/v1/api-keys/workspace/service", `{"name":"k","scopes":["completions.write"]}`), "key").Str
	create("/v1/virtual-keys", `{"name":"vk","slug":"vk","provider":"openai","key":"sk-1"}`)
	create("/v1/policies/rate-limits", `{"type":"requests","unit":"rpd","value":5}`)
	if status, body := p.do("GET", "/v1/virtual-keys/vk", owner, ""); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	for i := range 7 {
		want := 200
		if i >= 5 {
			want = 429
		}
		if status, body := p.do("POST", "/v1/chat/completions", key, hello); status != want {
			t.Errorf("call %d: %d %s", i+1, status, body)
		}
		if i%2 == 0 {
			p.kill()
			p.start()
		}
	}
}

// Linux distributes the connections of a port over all processes that listen on it.
func TestAStartWarnsOfAPortOfAnotherProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system refuses it")
	}
	const warning = "another process listens on this port too"
	first := newProcess(t)
	first.start()
	second := newProcess(t)
	text, err := os.ReadFile(first.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(second.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	second.url = first.url
	second.start()
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(second.logs(), warning); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the second start does not warn:\n%s", second.logs())
		}
	}
	if strings.Contains(first.logs(), warning) {
		t.Error("the first start warns")
	}
}

func TestOneStoreHasOneProcess(t *testing.T) {
	p := newProcess(t)
	p.start()
	second := newProcess(t)
	second.home = p.home
	text, err := os.ReadFile(second.file)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(p.home, "Caddyfile2")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := second.command("run", "--config", file)
	var out bytes.Buffer
	run.Stdout, run.Stderr = &out, &out
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = run.Process.Kill() })
	defer stop()
	err = run.Wait()
	if err == nil || ctx.Err() != nil || !strings.Contains(out.String(), "in use by another process") || strings.Contains(out.String(), "goroutine ") {
		t.Errorf("%v\n%s", err, out.String())
	}
	// A configuration can still be validated.
	if out, err := p.command("validate", "--config", p.file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if status, body := p.do("POST", "/v1/chat/completions", p.key(), hello); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}

func TestExamplesAreFormattedAndValid(t *testing.T) {
	p := newProcess(t)
	for _, args := range [][]string{{"fmt", "--diff"}, {"validate", "--adapter", "caddyfile", "--config"}} {
		path, err := filepath.Abs("../../Caddyfile.example")
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.command(append(args, path)...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

// Go never uses a proxy for loopback addresses, so the providers have other names.
func TestTheOperatorsProvidersHeedTheProxyOfTheEnvironment(t *testing.T) {
	asked := make(chan string, 2)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Host
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, gatewaytest.Completion)
	}))
	t.Cleanup(proxy.Close)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("NO_PROXY", "direct.invalid")
	p := newProcess(t)
	text, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	providers := "gw {\n"
	for _, slug := range []string{"proxied", "direct"} {
		providers += "provider " + slug + " {\ntype openai\nbase_url http://models." + slug + ".invalid/v1\napi_key sk\n}\n"
	}
	if err := os.WriteFile(p.file, []byte(strings.Replace(string(text), "gw {\n", providers, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start()
	key := p.key()
	for slug, want := range map[string]int{"proxied": 200, "direct": 503} {
		status, body := p.do("POST", "/v1/chat/completions", key, `{"model":"@`+slug+`/m","messages":[{"role":"user","content":"hi"}]}`)
		if status != want {
			t.Errorf("%s: %d %s", slug, status, body)
		}
	}
	close(asked)
	if host := <-asked; host != "models.proxied.invalid" || len(asked) != 0 {
		t.Errorf("the proxy was asked for %q and %d more", host, len(asked))
	}
}
