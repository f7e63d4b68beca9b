package collect

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

const maxObject = 16 << 20 // etcd takes no more than 1.5 MiB, unless it is told to

// decodeList gives the objects of a list one by one while they come, so that of a list of any length no more than one object is held as text.
// The usual decoder waits for all of it, makes an array of all objects, and keeps that for as long as any one of them. In protobuf,
// where a text stands as it is, those that do not have all the words are passed over.
func decodeList(body io.Reader, k *snapshot.Kind, each func(snapshot.Object) error, words ...string) (list metav1.List, err error) {
	in := bufio.NewReaderSize(body, 64<<10)
	if head, _ := in.Peek(len(protobufMagic)); k != nil && bytes.Equal(head, protobufMagic) {
		_, _ = in.Discard(len(protobufMagic)) // they are there
		err = decodeProtobuf(in, k, &list.ListMeta, words, each)
	} else {
		err = decodeJSON(in, k, &list.ListMeta, each)
	}
	return list, err
}

func decodeProtobuf(in *bufio.Reader, k *snapshot.Kind, meta *metav1.ListMeta, words []string, each func(snapshot.Object) error) error {
	found := false
	var text bytes.Buffer
	var bare []byte
	err := streamFields(in, func(n protowire.Number, value *io.LimitedReader) error {
		if n != unknownRaw {
			return nil
		}
		found = true
		return streamFields(bufio.NewReader(value), func(n protowire.Number, value *io.LimitedReader) error {
			if value.N > maxObject {
				return fmt.Errorf("an object of %d bytes", value.N)
			}
			text.Reset()
			if _, err := text.ReadFrom(value); err != nil || value.N > 0 { // cut off
				return err
			}
			switch n {
			case listMeta:
				return meta.Unmarshal(text.Bytes())
			case listItems:
				if slices.ContainsFunc(words, func(word string) bool { return !bytes.Contains(text.Bytes(), []byte(word)) }) {
					return nil
				}
				var err error
				if bare, err = withoutManagedFields(bare[:0], text.Bytes()); err != nil {
					return err
				}
				o := k.New()
				into, ok := o.(interface{ Unmarshal([]byte) error })
				if !ok {
					return fmt.Errorf("%T has no form in protobuf", o)
				}
				if err := into.Unmarshal(bare); err != nil {
					return err
				}
				o.GetObjectKind().SetGroupVersionKind(k.Group.WithVersion(k.Version)) // a list leaves it out
				return each(o)
			}
			return nil
		})
	})
	if err == nil && !found {
		return errors.New("an envelope without an object")
	}
	return err
}

// decodeJSON is for kinds that have no other form, and for servers that know no other.
func decodeJSON(body io.Reader, k *snapshot.Kind, meta *metav1.ListMeta, each func(snapshot.Object) error) error {
	in := &io.LimitedReader{R: body, N: maxObject}
	d := json.NewDecoder(in)
	value := func(into any) error {
		in.N = maxObject
		err := d.Decode(into)
		if err != nil && in.N == 0 {
			return fmt.Errorf("an object of more than %d bytes", maxObject)
		}
		return err
	}
	found := false
	items := func() error {
		t, err := d.Token()
		if found = err == nil && (t == nil || t == json.Delim('[')); !found || t == nil {
			return err
		}
		for d.More() {
			var raw json.RawMessage
			if err := value(&raw); err != nil {
				return err
			}
			o, err := decodeObject(raw, k)
			if err != nil {
				return err
			}
			if err := each(o); err != nil {
				return err
			}
		}
		_, err = d.Token()
		return err
	}
	t, err := d.Token()
	if t == json.Delim('{') {
		for err == nil && d.More() {
			var key json.Token
			if key, err = d.Token(); err != nil {
				break
			}
			switch key {
			case "metadata":
				err = value(meta)
			case "items":
				err = items()
			default:
				err = value(&json.RawMessage{})
			}
		}
		if err == nil {
			_, err = d.Token()
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err == nil && !found:
		return errors.New("a JSON text that is no list")
	}
	return err
}

func decodeObject(raw []byte, k *snapshot.Kind) (snapshot.Object, error) {
	if k == nil {
		return snapshot.Decode(raw)
	}
	return snapshot.DecodeAs(raw, k.Group.WithVersion(k.Version)) // lists of built-in kinds leave it out
}

// streamFields gives the fields of a message that are texts or messages; what each leaves of one is passed over.
func streamFields(in *bufio.Reader, each func(n protowire.Number, value *io.LimitedReader) error) error {
	for {
		tag, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		n, kind := protowire.DecodeTag(tag)
		switch {
		case err != nil:
		case n < protowire.MinValidNumber:
			err = errors.New("a field without a number")
		case kind == protowire.BytesType:
			err = streamValue(in, n, each)
		case kind == protowire.VarintType:
			_, err = binary.ReadUvarint(in)
		case kind == protowire.Fixed32Type:
			_, err = in.Discard(4)
		case kind == protowire.Fixed64Type:
			_, err = in.Discard(8)
		default:
			err = fmt.Errorf("a field of type %d", kind)
		}
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
}

func streamValue(in *bufio.Reader, n protowire.Number, each func(n protowire.Number, value *io.LimitedReader) error) error {
	size, err := binary.ReadUvarint(in)
	if err != nil {
		return err
	}
	if size > math.MaxInt64 {
		return errors.New("a field longer than any")
	}
	value := &io.LimitedReader{R: in, N: int64(size)}
	if err := each(n, value); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, value); err != nil {
		return err
	}
	if value.N > 0 {
		return io.ErrUnexpectedEOF
	}
	return nil
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
