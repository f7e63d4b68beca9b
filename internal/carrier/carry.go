package carrier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csidoctor/csidoctor/internal/frame"
	"github.com/csidoctor/csidoctor/internal/nodereport"
)

const (
	every = 200 * time.Millisecond // a list by label, which the API server answers from its memory
	// An API server that does not take a Job within this, or does not remove one, is not waited for.
	patience = 5 * time.Second
	// A stream may have lines beside the frame, and no more than this of them is kept.
	maxStream = frame.Limit + 1<<20
)

// carry makes the Job, finds its pod, and takes the report from it. It tells early whether the Job is there.
func (c *Carrier) carry(ctx context.Context, job *batchv1.Job, p Plan, made *existence) (*nodereport.NodeReport, error) {
	if err := ctx.Err(); err != nil {
		*made = no
		return nil, err
	}
	// Once it is sent, an interrupt must not leave it open whether the Job exists.
	create, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	job, err := c.batch.Jobs(c.Namespace).Create(create, job, metav1.CreateOptions{})
	if err != nil {
		var status apierrors.APIStatus
		if errors.As(err, &status) && status.Status().Code/100 == 4 {
			*made = no
		}
		return nil, c.refused(err.Error(), err)
	}
	*made = yes
	c.Say(p.Name, "its Job "+job.Name+" is made")
	pod, container, err := c.started(ctx, job)
	if err != nil {
		return nil, err
	}
	c.Say(p.Name, "its pod has started ("+container+")")
	output, err := c.output(ctx, pod, container, p)
	if err != nil {
		return nil, err
	}
	return read(output, p)
}

// read finds the report in what the program wrote.
func read(output []byte, p Plan) (*nodereport.NodeReport, error) {
	report, err := frame.Read(output)
	switch {
	case errors.Is(err, frame.ErrNone):
		return nil, &Failure{Detail: "the program there wrote no report: " + lastWords(output), Remedy: byHand}
	case err != nil:
		return nil, &Failure{Detail: err.Error(), Remedy: "try again; or " + byHand}
	case report.Metadata.Name != p.Name:
		return nil, &Failure{Detail: fmt.Sprintf("what came is a report of %q", report.Metadata.Name), Remedy: byHand}
	}
	return report, nil
}

// refused names what can be done where the API server, or who it asks, does not let a Job or its pod be made.
func (c *Carrier) refused(said string, err error) error {
	f := &Failure{Detail: said}
	switch {
	case strings.Contains(said, "PodSecurity"):
		f.Remedy = fmt.Sprintf("name a namespace that allows privileged pods with --probe-namespace (its label pod-security.kubernetes.io/enforce decides; %s does as a rule); or %s", Namespace, byHand)
	case strings.Contains(said, "exceeded quota"):
		f.Remedy = "name a namespace with room in its quota with --probe-namespace"
	case strings.Contains(said, "admission webhook") || strings.Contains(said, "ValidatingAdmissionPolicy") || strings.Contains(said, "denied the request"):
		f.Remedy = fmt.Sprintf("ask whoever runs that policy to except namespace %s or pods with the label %s=%s, or name another namespace with --probe-namespace; or %s", c.Namespace, managedBy, ours, byHand)
	case apierrors.IsForbidden(err):
		f.Remedy = fmt.Sprintf("ask for the role in deploy/prober.yaml in namespace %s, or name another namespace with --probe-namespace", c.Namespace)
	case apierrors.IsNotFound(err):
		f.Remedy = "name a namespace that exists with --probe-namespace"
	default:
		f.Remedy = "try again; or " + byHand
	}
	return f
}

// started waits until a container of the Job's pod has started. Answers that do not come are waited for: the API server may be
// away for a while. The error of one that will never start is a *Failure, that of a time-out says how far it was.
func (c *Carrier) started(ctx context.Context, job *batchv1.Job) (pod, container string, err error) {
	state, last := "the Job's controller has made no pod", ""
	begun := time.Now()
	for ; ; c.pause(ctx) {
		if ctx.Err() != nil {
			return "", "", errors.New(c.why(ctx, job, pod, state))
		}
		pods, err := c.core.Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: probeName + "=" + job.Name})
		switch {
		case err != nil && (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)):
			return "", "", &Failure{Detail: err.Error(), Remedy: "ask for the right to list pods in namespace " + c.Namespace + " (deploy/prober.yaml has the role)"}
		case err != nil:
			if ctx.Err() == nil {
				state = "the API server does not answer: " + err.Error()
			}
			continue
		case len(pods.Items) == 0:
			state = "the Job's controller has made no pod"
			if time.Since(begun) > time.Second {
				if said, _ := c.said(ctx, "Job", job.Name, "FailedCreate"); said != "" { // else why says what could not be read
					return "", "", c.refused(said, nil)
				}
			}
			continue
		}
		p := &pods.Items[0]
		pod = p.Name
		var why string
		if container, why, err = progress(p); err != nil || container != "" {
			return pod, container, err
		}
		if state = why; state != last {
			last = state
			c.Say(job.Spec.Template.Spec.NodeName, state)
		}
	}
}

func (c *Carrier) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(every):
	}
}

// why adds to the last state what events say of the pod.
func (c *Carrier) why(ctx context.Context, job *batchv1.Job, pod, state string) string {
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	kind, name := "Pod", pod
	if pod == "" {
		kind, name = "Job", job.Name
	}
	said, err := c.said(short, kind, name, "")
	switch {
	case said != "":
		return state + "; " + said
	case apierrors.IsForbidden(err):
		return state + "; why may stand in an event: " + err.Error()
	}
	return state
}

// said is the newest warning about an object; empty: there is none.
func (c *Carrier) said(ctx context.Context, kind, name, reason string) (string, error) {
	selector := fmt.Sprintf("involvedObject.kind=%s,involvedObject.name=%s,type=Warning", kind, name)
	if reason != "" {
		selector += ",reason=" + reason
	}
	events, err := c.core.Events(c.Namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil || len(events.Items) == 0 {
		return "", err
	}
	newest := events.Items[0]
	for _, e := range events.Items {
		if e.LastTimestamp.After(newest.LastTimestamp.Time) {
			newest = e
		}
	}
	return newest.Message, nil
}

// progress tells of a pod which container has started, or else how far it is. The error of a pod that will never start one is
// a *Failure.
func progress(p *corev1.Pod) (container, state string, err error) {
	hopeless := 0
	var why []string
	images := map[string]bool{}
	say := func(image, reason, message string) {
		if !images[image] { // two containers of one image: the first says it
			images[image] = true
			why = append(why, strings.TrimSpace(fmt.Sprintf("%s: %s %s", image, reason, message)))
		}
	}
	for _, spec := range p.Spec.Containers {
		s := statusOf(p, spec.Name)
		switch t := s.State.Terminated; {
		case s.State.Running != nil:
			return spec.Name, "", nil
		case t != nil && spec.Name == withProgram && !neverRan(t):
			return spec.Name, "", nil
		case t != nil:
			hopeless++
			say(spec.Image, t.Reason, t.Message)
		case s.State.Waiting != nil:
			w := s.State.Waiting
			switch w.Reason {
			case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed",
				"RunContainerError", "CreateContainerError", "CreateContainerConfigError", "PostStartHookError":
				hopeless++
			}
			say(spec.Image, w.Reason, w.Message)
		}
	}
	state = strings.Join(why, "; ")
	switch {
	case p.DeletionTimestamp != nil:
		return "", "", &Failure{Detail: "somebody deleted its pod", Remedy: "try again; or " + byHand}
	case hopeless == len(p.Spec.Containers):
		f := &Failure{Detail: "no container of the pod could be started: " + state, Remedy: another}
		if strings.Contains(state, "Pull") {
			f.Remedy += "; a private registry wants --probe-pull-secret"
		}
		return "", "", f
	case p.Status.Phase == corev1.PodFailed:
		return "", "", &Failure{Detail: strings.Trim(fmt.Sprintf("the node refuses the pod: %s: %s", p.Status.Reason, p.Status.Message), ": "), Remedy: "make room on the node; or " + byHand}
	case state == "":
		return "", "the kubelet has not begun with its pod", nil
	}
	return "", state, nil
}

// neverRan: the runtime could not start the program, for it is not in the image.
func neverRan(t *corev1.ContainerStateTerminated) bool {
	return t.Reason == "StartError" || t.Reason == "ContainerCannotRun"
}

func statusOf(p *corev1.Pod, container string) corev1.ContainerStatus {
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == container {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

// output is what the program wrote: the log of its own container, or what comes back from a shell into which it was sent.
func (c *Carrier) output(ctx context.Context, pod, container string, p Plan) ([]byte, error) {
	if container != withProgram {
		c.Say(p.Name, "is sent the program")
		return c.send(ctx, place{c.Namespace, pod, container}, p.Name, program(p.Node.Status.NodeInfo.Architecture))
	}
	var err error
	for ; ctx.Err() == nil; c.pause(ctx) { // from the start again: a log is not lost with the connection
		var log io.ReadCloser
		log, err = c.core.Pods(c.Namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container, Follow: true, LimitBytes: new(int64(maxStream))}).Stream(ctx)
		switch {
		case apierrors.IsForbidden(err):
			return nil, &Failure{Detail: err.Error(), Remedy: "ask for the right to get pods/log in namespace " + c.Namespace + " (deploy/prober.yaml has the role)"}
		case apierrors.IsNotFound(err):
			return nil, &Failure{Detail: "its pod is gone: " + err.Error(), Remedy: "try again; or " + byHand}
		case err != nil:
			continue
		}
		var b []byte
		b, err = io.ReadAll(io.LimitReader(log, maxStream))
		log.Close()
		if err == nil {
			return b, nil
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	return nil, fmt.Errorf("the log of its pod %s: %w", pod, err)
}

// lastWords are the last lines of an output that has no report.
func lastWords(output []byte) string {
	lines := strings.Split(string(bytes.TrimSpace(output[max(0, len(output)-1000):])), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// remove asks for the Job's end, with all that belongs to it. One that may just be coming into being is looked for until it is
// found, or the patience ends.
func (c *Carrier) remove(ctx context.Context, name string, made existence) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	err := c.delete(ctx, c.Namespace, name)
	for err == nil && made == unsure && ctx.Err() == nil {
		c.pause(ctx)
		if again := c.delete(ctx, c.Namespace, name); ctx.Err() == nil {
			err = again
		}
	}
	return err
}

// delete tries until the API server answers: nil where the Job is gone, or going.
func (c *Carrier) delete(ctx context.Context, namespace, name string) error {
	for {
		err := c.batch.Jobs(namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
		switch {
		case err == nil, apierrors.IsNotFound(err):
			return nil
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), ctx.Err() != nil:
			return err
		}
		c.pause(ctx)
	}
}
