package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	vklog "github.com/virtual-kubelet/virtual-kubelet/log"
	"github.com/virtual-kubelet/virtual-kubelet/node"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

const (
	requestTimeout  = 10 * time.Second
	podWorkers      = 8
	queueRetryFirst = 5 * time.Millisecond
	queueRetryMax   = 2 * time.Second
)

// libraryNode joins virtual-kubelet's controllers with our host.
type libraryNode struct {
	host     *host
	listener net.Listener
	watching kubernetes.Interface // for watches: without a timeout, and patient
	pods     informers.SharedInformerFactory
	objects  informers.SharedInformerFactory
	events   record.EventBroadcaster
	stop     context.CancelFunc
}

// newNode checks all that can be checked before the first request.
func newNode(opts *options, logger *slog.Logger) (*libraryNode, error) {
	vklog.L = libraryLogger{logger.With("from", "virtual-kubelet")}
	config, err := clientcmd.BuildConfigFromFlags("", opts.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	config.UserAgent = "process-node"
	config.QPS, config.Burst = 200, 400 // hundreds of pods may start at once
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	patient := rest.CopyConfig(config)
	patient.Dial = patientDial
	watching, err := kubernetes.NewForConfig(patient)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	asking := rest.CopyConfig(config)
	asking.Timeout = requestTimeout
	client, err := kubernetes.NewForConfig(asking)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	apiHost, apiPort, err := apiAddress(opts, config.Host)
	if err != nil {
		return nil, err
	}
	spawner, err := newSpawner()
	if err != nil {
		return nil, err
	}
	addresses, err := newAddressPool()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", opts.listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	alive, stop := context.WithCancel(context.Background())
	h := &host{
		nodeName: opts.nodeName, address: listener.Addr().(*net.TCPAddr).IP.String(), folder: opts.root, keepLogs: opts.keepLogs,
		apiHost: apiHost, apiPort: apiPort, images: opts.images, log: logger, client: client,
		spawner: spawner, addresses: addresses, alive: alive, pods: map[types.UID]*pod{}, notify: func(*corev1.Pod) {},
	}
	n := &libraryNode{host: h, listener: listener, watching: watching, stop: stop, events: record.NewBroadcaster()}
	h.recorder = podEvents{n.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "process-node", Host: opts.nodeName})}
	n.pods = informers.NewSharedInformerFactoryWithOptions(watching, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", opts.nodeName).String()
	}), informers.WithTransform(withoutManagedFields))
	n.objects = informers.NewSharedInformerFactoryWithOptions(watching, 0, informers.WithTransform(withoutManagedFields))
	return n, h.prepare()
}

// run registers the node and serves it until ctx ends.
func (n *libraryNode) run(ctx context.Context, out io.Writer) error {
	defer n.stop()
	h := n.host
	n.events.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: h.client.CoreV1().Events("")})
	defer n.events.Shutdown()

	podInformer := n.pods.Core().V1().Pods()
	h.listed = podInformer.Lister()
	objects, err := newObjects(h.client, n.objects, h.objectChanged)
	if err != nil {
		return err
	}
	h.objects = objects
	serviceInformer := informers.NewSharedInformerFactory(n.watching, 0).Core().V1().Services() // asked for, never started: we resolve env ourselves
	pods, err := node.NewPodController(node.PodControllerConfig{
		PodClient: podWriter{h}, PodInformer: podInformer, EventRecorder: h.recorder, Provider: provider{h},
		ConfigMapInformer: objects.configMaps, SecretInformer: objects.secrets, ServiceInformer: serviceInformer,
		SkipDownwardAPIResolution: true, // the library's knows no podIP, keeps no order and reports no failure in the status
		// The defaults allow 10 updates a second in all, and give up after 20 attempts.
		SyncPodsFromKubernetesRateLimiter: queuePace(), SyncPodsFromKubernetesShouldRetryFunc: retryForever,
		SyncPodStatusFromProviderRateLimiter: queuePace(), SyncPodStatusFromProviderShouldRetryFunc: retryForever,
		DeletePodsFromKubernetesRateLimiter: queuePace(), DeletePodsFromKubernetesShouldRetryFunc: retryForever,
	})
	if err != nil {
		return fmt.Errorf("making the pod controller: %w", err)
	}
	if _, err := podInformer.Informer().AddEventHandler(h.replacedPods()); err != nil {
		return err
	}
	registration := nodeObject(h, n.listener.Addr().(*net.TCPAddr).Port)
	nodes := h.client.CoreV1().Nodes()
	registered, err := node.NewNodeController(node.NaiveNodeProvider{}, registration, nodes,
		node.WithNodeEnableLeaseV1(h.client.CoordinationV1().Leases(corev1.NamespaceNodeLease), node.DefaultLeaseDuration),
		node.WithNodeStatusUpdateErrorHandler(func(ctx context.Context, err error) error {
			if !apierrors.IsNotFound(err) {
				return err
			}
			_, err = nodes.Create(ctx, registration.DeepCopy(), metav1.CreateOptions{}) // someone deleted it
			return err
		}))
	if err != nil {
		return fmt.Errorf("making the node controller: %w", err)
	}
	if err := n.serve(); err != nil {
		return err
	}
	defer n.listener.Close()

	// Secrets and ConfigMaps first, so that no pod starts before they are known.
	n.objects.Start(ctx.Done())
	n.pods.Start(ctx.Done())
	n.objects.WaitForCacheSync(ctx.Done())
	go func() { _ = pods.Run(ctx, podWorkers) }() // its error is read below
	defer func() { <-pods.Done() }()
	select {
	case <-pods.Ready():
	case <-pods.Done():
		return pods.Err()
	}
	go func() { _ = registered.Run(ctx) }()
	defer func() { <-registered.Done() }()
	select {
	case <-registered.Ready():
	case <-registered.Done():
		return registered.Err()
	}
	if err := n.announce(ctx, out); err != nil {
		return err
	}
	select {
	case <-pods.Done():
		return pods.Err()
	case <-registered.Done():
		return registered.Err()
	}
}

// announce waits until the API server shows the node as Ready and says so.
func (n *libraryNode) announce(ctx context.Context, out io.Writer) error {
	for {
		registered, err := n.host.client.CoreV1().Nodes().Get(ctx, n.host.nodeName, metav1.GetOptions{})
		if err == nil && nodeReady(registered) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return json.NewEncoder(out).Encode(map[string]any{
		"event": "ready", "node": n.host.nodeName, "kubelet": n.listener.Addr().String(),
		"podNetwork": n.host.addresses.String(), "root": n.host.folder,
	})
}

// serve answers kubectl logs and exec, which come through the API server.
func (n *libraryNode) serve() error {
	address := n.listener.Addr().(*net.TCPAddr)
	certificate, err := selfSignedCertificate(n.host.nodeName, address.IP, time.Now())
	if err != nil {
		return err
	}
	server := &http.Server{
		ReadHeaderTimeout: requestTimeout,
		ErrorLog:          slog.NewLogLogger(n.host.log.Handler(), slog.LevelDebug),
		Handler: api.PodHandler(api.PodHandlerConfig{
			RunInContainer:   n.host.runInContainer,
			GetContainerLogs: n.host.containerLog,
			GetPods:          provider{n.host}.GetPods,
			GetPodsFromKubernetes: func(context.Context) ([]*corev1.Pod, error) {
				return n.host.listed.List(labels.Everything())
			},
		}, true),
	}
	secure := tls.NewListener(n.listener, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}})
	go func() {
		if err := server.Serve(secure); err != nil {
			n.host.log.Debug("the kubelet endpoint has ended", "reason", err)
		}
	}()
	return nil
}

// apiAddress is where pods find the API server.
func apiAddress(opts *options, server string) (host, port string, err error) {
	if opts.apiserverHost != "" {
		return opts.apiserverHost, opts.apiserverPort, nil
	}
	parsed, err := url.Parse(server)
	if err != nil || parsed.Hostname() == "" {
		return "", "", fmt.Errorf("--kubeconfig: found server %q, expected https://HOST:PORT", server)
	}
	port = parsed.Port()
	if port == "" {
		port = strconv.Itoa(443)
	}
	return parsed.Hostname(), port, nil
}

func queuePace() workqueue.TypedRateLimiter[any] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[any](queueRetryFirst, queueRetryMax)
}

// retryForever keeps to the queue's pace; an API server may be away for long.
func retryForever(context.Context, string, int, time.Time, error) (*time.Duration, error) {
	return nil, nil
}

func withoutManagedFields(object any) (any, error) {
	if meta, ok := object.(metav1.Object); ok {
		meta.SetManagedFields(nil)
	}
	return object, nil
}
