package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// spanQueueSize is how many ended spans wait for the collector at most: the
	// SDK's default, a few MiB. OTEL_BSP_MAX_QUEUE_SIZE changes it.
	spanQueueSize = 2048
	// spanShutdownTimeout bounds how long a stop waits for a collector that
	// does not answer.
	spanShutdownTimeout = 5 * time.Second
)

// errSpanQueueFull is why a span was dropped that the collector was too slow
// for.
var errSpanQueueFull = errors.New("span queue is full")

// newTracerProvider sets the export of spans up as the OTEL_* variables say,
// read through getenv; headers, certificates, timeout, compression and
// OTEL_RESOURCE_ATTRIBUTES are read by the SDK from the process itself.
// Without an endpoint, or switched off, the provider is nil and nothing is
// exported. The function returned is never nil, sends what waits and ends all
// goroutines of the provider.
//
// Export never delays an event: a collector that is away or slow costs spans,
// and lost (which may be nil) is told how many and why. It is called from the
// exporter's goroutine or from the one that ended a span, and must not block.
func newTracerProvider(ctx context.Context, getenv func(string) string, version string, lost func(spans int, reason error)) (*sdktrace.TracerProvider, func(context.Context) error, error) {
	none := func(context.Context) error { return nil }
	endpoint, err := otlpEndpoint(getenv)
	if err != nil || endpoint == "" {
		return nil, none, err
	}
	sampler, err := otlpSampler(getenv)
	if err != nil || sampler == nil {
		return nil, none, err
	}
	described, err := traceResource(ctx, getenv, version)
	if err != nil {
		return nil, none, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	exporter, err := otlpExporter(ctx, getenv, endpoint)
	if err != nil {
		return nil, none, err
	}
	size := spanQueueSize
	if n, err := strconv.Atoi(getenv("OTEL_BSP_MAX_QUEUE_SIZE")); err == nil && n > 0 {
		size = n
	}
	provider := sdktrace.NewTracerProvider(append(tracePolicy(sampler),
		sdktrace.WithResource(described),
		sdktrace.WithSpanProcessor(newSpanQueue(exporter, size, lost)))...)
	return provider, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, spanShutdownTimeout)
		defer cancel()
		return provider.Shutdown(ctx)
	}, nil
}

// otlpEndpoint returns where spans are sent, or "" for nowhere. The common
// endpoint is a base that OTLP over HTTP appends its path to.
func otlpEndpoint(getenv func(string) string) (string, error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return "", nil
	}
	switch kind := getenv("OTEL_TRACES_EXPORTER"); kind {
	case "", "otlp":
	case "none":
		return "", nil
	default:
		return "", fmt.Errorf("OTEL_TRACES_EXPORTER: %q is not supported; hint: otlp or none", kind)
	}
	name := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	endpoint := getenv(name)
	if endpoint == "" {
		name = "OTEL_EXPORTER_OTLP_ENDPOINT"
		if endpoint = getenv(name); endpoint == "" {
			return "", nil
		}
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		// The text may hold a password, so it is not repeated.
		return "", fmt.Errorf("%s: not a URL of http or https; hint: write it like http://localhost:4318", name)
	}
	if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
		u = u.JoinPath("v1", "traces")
	}
	return u.String(), nil
}

func otlpExporter(ctx context.Context, getenv func(string) string, endpoint string) (sdktrace.SpanExporter, error) {
	protocol := cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL"))
	switch protocol {
	case "", "http/protobuf":
		return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint))
	case "grpc":
		return otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	}
	return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %q is not supported; hint: http/protobuf or grpc", protocol)
}

// otlpSampler returns who decides about events that nobody decided about yet;
// nil records nothing at all. Failures are recorded past every other sampler.
func otlpSampler(getenv func(string) string) (sdktrace.Sampler, error) {
	share := 1.0
	if arg := getenv("OTEL_TRACES_SAMPLER_ARG"); arg != "" {
		var err error
		if share, err = strconv.ParseFloat(arg, 64); err != nil || !(share >= 0 && share <= 1) {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG: %q is no share; hint: a number from 0 to 1", arg)
		}
	}
	switch name := getenv("OTEL_TRACES_SAMPLER"); name {
	case "", "parentbased_always_on":
		return sdktrace.ParentBased(sdktrace.AlwaysSample()), nil
	case "parentbased_always_off":
		return sdktrace.ParentBased(sdktrace.NeverSample()), nil
	case "parentbased_traceidratio":
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(share)), nil
	case "always_on":
		return sdktrace.AlwaysSample(), nil
	case "traceidratio":
		return sdktrace.TraceIDRatioBased(share), nil
	case "always_off":
		return nil, nil
	default:
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER: %q is not supported; hint: parentbased_always_on or parentbased_traceidratio", name)
	}
}

// traceResource describes this process. ip is read by Jaeger alone: spans whose
// hosts differ or are unknown get a warning about clock skew as soon as an
// attempt starts hours after its publish span.
func traceResource(ctx context.Context, getenv func(string) string, version string) (*resource.Resource, error) {
	own := []attribute.KeyValue{attribute.String("service.version", version), attribute.String("ip", hostIP())}
	named := []attribute.KeyValue{}
	if name := getenv("OTEL_SERVICE_NAME"); name != "" {
		named = append(named, attribute.String("service.name", name))
	}
	return resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(append(own, attribute.String("service.name", "siding"))...),
		resource.WithFromEnv(),
		resource.WithAttributes(named...))
}

// hostIP is the first address of this host that others can reach, else
// loopback.
func hostIP() string {
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}

// spanQueue stands before the SDK's batch processor and after it, because that
// one drops without a word: it refuses what does not fit, and learns from the
// exporter what was sent.
type spanQueue struct {
	sdktrace.SpanProcessor
	room atomic.Int64
	lost func(spans int, reason error)
}

func newSpanQueue(exporter sdktrace.SpanExporter, size int, lost func(int, error)) *spanQueue {
	if lost == nil {
		lost = func(int, error) {}
	}
	q := &spanQueue{lost: lost}
	q.room.Store(int64(size))
	// The spare places are for the marks that a flush puts into the queue.
	q.SpanProcessor = sdktrace.NewBatchSpanProcessor(queueExporter{exporter, q}, sdktrace.WithMaxQueueSize(size+16))
	return q
}

// OnEnd queues a span or drops it, at once.
func (q *spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if q.room.Add(-1) < 0 {
		q.room.Add(1)
		q.lost(1, errSpanQueueFull)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

type queueExporter struct {
	sdktrace.SpanExporter
	queue *spanQueue
}

// ExportSpans returns no error: the SDK would print each one to stderr.
func (e queueExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.queue.room.Add(int64(len(spans)))
	if err != nil {
		e.queue.lost(len(spans), err)
	}
	return nil
}
