package collect

import (
	"bytes"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// protobufMagic is what the API server begins a body in protobuf with.
var protobufMagic = []byte("k8s\x00")

// The numbers of fields in the generated.proto files of Kubernetes.
const (
	unknownRaw        = 2 // the object in its envelope, of runtime.Unknown
	listMeta          = 1 // of every list
	listItems         = 2
	objectMeta        = 1 // of every object that can be listed
	metaManagedFields = 17
)

// decodePage gives the objects of a list in protobuf one by one. The usual decoder makes an array of them all, copies that as it grows, and keeps
// it for as long as any one of them; and a quarter of most objects is managedFields, which are left out here before they are made.
func decodePage(body []byte, k *snapshot.Kind, each func(runtime.Object) error) (list metav1.List, err error) {
	err = errors.New("an envelope without an object")
	var item []byte
	broken := eachField(body[len(protobufMagic):], func(n protowire.Number, _, raw []byte) error {
		if n != unknownRaw {
			return nil
		}
		err = eachField(raw, func(n protowire.Number, _, value []byte) error {
			switch n {
			case listMeta:
				return list.ListMeta.Unmarshal(value)
			case listItems:
				var err error
				if item, err = withoutManagedFields(item[:0], value); err != nil {
					return err
				}
				o := k.New()
				into, ok := o.(interface{ Unmarshal([]byte) error })
				if !ok {
					return fmt.Errorf("%T has no form in protobuf", o)
				}
				if err := into.Unmarshal(item); err != nil {
					return err
				}
				return each(o)
			}
			return nil
		})
		return nil
	})
	return list, errors.Join(broken, err)
}

// withoutManagedFields adds an object to out.
func withoutManagedFields(out, object []byte) ([]byte, error) {
	err := eachField(object, func(n protowire.Number, whole, value []byte) error {
		if n != objectMeta {
			out = append(out, whole...)
			return nil
		}
		size := 0
		count := func(n protowire.Number, whole, _ []byte) error {
			if n != metaManagedFields {
				size += len(whole)
			}
			return nil
		}
		if err := eachField(value, count); err != nil {
			return err
		}
		out = protowire.AppendTag(out, objectMeta, protowire.BytesType)
		out = protowire.AppendVarint(out, uint64(size))
		return eachField(value, func(n protowire.Number, whole, _ []byte) error {
			if n != metaManagedFields {
				out = append(out, whole...)
			}
			return nil
		})
	})
	return out, err
}

// eachField gives the fields of a message: each as a whole, and its value where that is text or a message.
func eachField(message []byte, each func(n protowire.Number, whole, value []byte) error) error {
	for len(message) > 0 {
		n, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		size := protowire.ConsumeFieldValue(n, kind, message[tag:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		var value []byte
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(message[tag:])
		}
		if err := each(n, message[:tag+size], value); err != nil {
			return err
		}
		message = message[tag+size:]
	}
	return nil
}

func isProtobuf(body []byte) bool { return bytes.HasPrefix(body, protobufMagic) }
