package stub_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// A stub as a server: two requests a minute, refusals in the provider's shape.
func Example_server() {
	provider, err := stub.New(stub.Config{
		Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 2, Per: time.Minute}},
	})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(provider)
	defer server.Close()

	for range 3 {
		resp, err := http.Post(server.URL+"/v1/messages", "application/json", strings.NewReader(`{"messages": []}`))
		if err != nil {
			log.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(resp.StatusCode, strings.Contains(string(body), "rate_limit_error"))
	}
	// Output:
	// 200 false
	// 200 false
	// 429 true
}

// A stub in a client's place for the network, following a script.
func ExampleStub_RoundTrip() {
	provider, err := stub.New(stub.Config{Script: []stub.Step{
		{Status: 529},
		{Status: 429, Wait: 20 * time.Second},
		{Fault: stub.FaultReset},
	}})
	if err != nil {
		log.Fatal(err)
	}
	client := http.Client{Transport: provider}

	for range 4 {
		resp, err := client.Post("https://api.example.com/v1/chat/completions", "application/json", strings.NewReader("{}"))
		if err != nil {
			fmt.Println("lost")
			continue
		}
		resp.Body.Close()
		fmt.Printf("%d %q\n", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	// Output:
	// 529 ""
	// 429 "20"
	// lost
	// 200 ""
}

func ExampleParseFault() {
	f, err := stub.ParseFault("503:every=10")
	fmt.Println(f.Kind, f.Status, f.Every, err)
	// Output: status 503 10 <nil>
}
