package snapshot

import (
	"crypto/sha256"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Shared holds one copy of what many objects say alike: a decoder makes a new one for each, and the pods of one workload differ
// in their names and little else. The zero value is ready. It may be used from several goroutines.
type Shared struct {
	mu         sync.Mutex
	strings    map[string]string
	containers map[[sha256.Size]byte][]corev1.Container
}

const (
	maxShared = 100 // bytes of a text: longer ones are messages, of which each is another
	maxTexts  = 1 << 17
)

// Share puts the common copies into an object that nobody else holds yet, and that nobody changes any more.
func (s *Shared) Share(o Object) {
	if _, ok := o.(*unstructured.Unstructured); ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.strings == nil {
		s.strings, s.containers = map[string]string{}, map[[sha256.Size]byte][]corev1.Container{}
	}
	s.walk(reflect.ValueOf(o).Elem())
}

// Redact is Share of what redact makes of an object. The containers of pods that are made from one template it redacts once.
func (s *Shared) Redact(o Object, redact func(Object) Object) Object {
	p, ok := o.(*corev1.Pod)
	if !ok {
		o = redact(o)
		s.Share(o)
		return o
	}
	containers, init := s.redacted(p.Spec.Containers, redact), s.redacted(p.Spec.InitContainers, redact)
	p.Spec.Containers, p.Spec.InitContainers = nil, nil
	p = redact(p).(*corev1.Pod)
	s.Share(p)
	p.Spec.Containers, p.Spec.InitContainers = containers, init
	return p
}

func (s *Shared) redacted(containers []corev1.Container, redact func(Object) Object) []corev1.Container {
	if len(containers) == 0 {
		return containers // most pods have no init containers
	}
	key, ok := template(containers)
	s.mu.Lock()
	have, known := s.containers[key]
	s.mu.Unlock()
	if known && ok {
		return have
	}
	p := redact(&corev1.Pod{Spec: corev1.PodSpec{Containers: containers}}).(*corev1.Pod)
	s.Share(p)
	if ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.keep(key, p.Spec.Containers)
	}
	return p.Spec.Containers
}

func (s *Shared) keep(key [sha256.Size]byte, containers []corev1.Container) {
	if len(s.containers) < maxTexts {
		s.containers[key] = containers
	}
}

// template tells containers from others; it cannot where one has no form in protobuf, and then they are only not shared.
func template(containers []corev1.Container) (key [sha256.Size]byte, ok bool) {
	sum := sha256.New()
	for i := range containers {
		raw, err := containers[i].Marshal()
		if err != nil {
			return key, false
		}
		sum.Write(raw)
	}
	return [sha256.Size]byte(sum.Sum(nil)), len(containers) > 0
}

// list shares the containers of pods that are made from one template. What is shared already others may be reading.
func (s *Shared) list(containers []corev1.Container) []corev1.Container {
	key, ok := template(containers)
	if !ok {
		return containers
	}
	if have, ok := s.containers[key]; ok {
		return have
	}
	for i := range containers {
		s.walk(reflect.ValueOf(&containers[i]).Elem())
	}
	s.keep(key, containers)
	return containers
}

func (s *Shared) text(t string) string {
	if len(t) > maxShared {
		return t
	}
	if have, ok := s.strings[t]; ok {
		return have
	}
	if len(s.strings) < maxTexts {
		s.strings[t] = t
	}
	return t
}

func (s *Shared) walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(s.text(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			s.walk(v.Elem())
		}
	case reflect.Slice:
		if !holdsStrings(v.Type().Elem()) {
			return
		}
		for i := range v.Len() {
			s.walk(v.Index(i))
		}
	case reflect.Map:
		s.walkMap(v)
	case reflect.Struct:
		switch x := v.Addr().Interface().(type) {
		case *metav1.ObjectMeta: // its own name, UID and version no other object has
			x.Namespace, x.GenerateName = s.text(x.Namespace), s.text(x.GenerateName)
			s.walk(reflect.ValueOf(&x.Labels).Elem())
			s.walk(reflect.ValueOf(&x.Annotations).Elem())
			s.walk(reflect.ValueOf(&x.OwnerReferences).Elem())
			s.walk(reflect.ValueOf(&x.Finalizers).Elem())
			return
		case *corev1.ObjectReference:
			x.Kind, x.APIVersion, x.Namespace, x.FieldPath = s.text(x.Kind), s.text(x.APIVersion), s.text(x.Namespace), s.text(x.FieldPath)
			return
		case *corev1.PodSpec:
			x.Containers, x.InitContainers = s.list(x.Containers), s.list(x.InitContainers)
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && holdsStrings(f.Type()) && f.Type() != containerList {
				s.walk(f)
			}
		}
	}
}

// walkMap puts the common copies in place of equal ones, of keys too: that a map takes the key that is set last is Go's own way.
func (s *Shared) walkMap(v reflect.Value) {
	m, ok := v.Interface().(map[string]string)
	if !ok {
		return // quantities
	}
	for key, value := range m {
		m[s.text(key)] = s.text(value)
	}
}

var containerList = reflect.TypeFor[[]corev1.Container]()

func holdsStrings(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Map, reflect.Struct:
		return true
	case reflect.Pointer, reflect.Slice:
		return holdsStrings(t.Elem())
	}
	return false
}
