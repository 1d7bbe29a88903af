package history_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/internal/history"
)

// noon is a minute and an hour beginning.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// sent is an attempt sent s seconds after noon that was answered at once.
func sent(s float64, status int, change ...func(*paceline.Record)) paceline.Record {
	at := noon.Add(time.Duration(s * float64(time.Second)))
	r := paceline.Record{Provider: "p", Model: "m", Arrived: at, Sent: at, Done: at, Status: status, Class: dialect.OK, Attempt: 1}
	if status == 429 {
		r.Class = dialect.RateLimited
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

// newLog opens a log that is closed with the test.
func newLog(t testing.TB, path string, o history.Options) *history.Log {
	t.Helper()
	l, err := history.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// logOf is the path of a log that holds rows.
func logOf(t testing.TB, rows ...paceline.Record) string {
	t.Helper()
	path := t.TempDir() + "/log.db"
	l := newLog(t, path, history.Options{KeepDays: 1 << 20})
	for _, r := range rows {
		l.Add(r)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func newReader(t testing.TB, path string) *history.Reader {
	t.Helper()
	r, err := history.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// records are those of a query.
func records(t testing.TB, path string, q history.Query) (all []paceline.Record) {
	t.Helper()
	for r, err := range newReader(t, path).Records(context.Background(), q) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// fill gives every field of a struct a value of its own.
func fill(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(noon.Add(time.Duration(*n) * 1001 * time.Microsecond)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.String:
		v.SetString(string(rune('a' + *n)))
	case reflect.Int, reflect.Int64:
		v.SetInt(*n * 1000)
	case reflect.Float64:
		v.SetFloat(1 / float64(*n))
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic("a field of " + v.Kind().String())
	}
}

// P-163, P-118: a row holds every field of its record, to the microsecond.
func TestRecordsComeBack(t *testing.T) {
	var full paceline.Record
	n := int64(0)
	fill(reflect.ValueOf(&full).Elem(), &n)
	empty := paceline.Record{}
	evidence := sent(1, 429)
	evidence.Evidence, evidence.Told = &paceline.Evidence{}, true
	want := []paceline.Record{empty, full, evidence}
	got := records(t, logOf(t, want...), history.Query{})
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}
