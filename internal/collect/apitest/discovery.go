package apitest

import (
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csidoctor/csidoctor/internal/snapshot"
)

// serveDiscovery answers /api, /apis and the resources of one version of a group: false where there is no such version.
func (s *Server) serveDiscovery(w http.ResponseWriter, gv schema.GroupVersion, root string) bool {
	served := s.served()
	switch root {
	case "api":
		write(w, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
		return true
	case "apis":
		groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for gv := range served {
			if gv.Group != "" {
				v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
				groups.Groups = append(groups.Groups, metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
			}
		}
		slices.SortFunc(groups.Groups, func(a, b metav1.APIGroup) int { return strings.Compare(a.Name, b.Name) })
		write(w, groups)
		return true
	}
	resources, ok := served[gv]
	if ok {
		write(w, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(), APIResources: resources})
	}
	return ok
}

func (s *Server) served() map[schema.GroupVersion][]metav1.APIResource {
	out := map[schema.GroupVersion][]metav1.APIResource{}
	add := func(resource, version, kind string, namespaced bool) {
		gr := schema.ParseGroupResource(resource)
		gv := schema.GroupVersion{Group: gr.Group, Version: version}
		if _, ok := s.kind(gv, resource); ok {
			out[gv] = append(out[gv], metav1.APIResource{Name: gr.Resource, Kind: kind, Namespaced: namespaced, Verbs: metav1.Verbs{"get", "list"}})
		}
	}
	for _, k := range snapshot.Kinds {
		version := k.Version
		if v, ok := s.options.Versions[k.Resource]; ok {
			version = v
		}
		add(k.Resource, version, k.Group.Kind, k.Namespaced)
	}
	for _, gk := range s.facts.GroupKinds() {
		if snapshot.KindOf(gk) == nil {
			o := s.facts.All(gk)[0]
			add(snapshot.VendorResource(gk), o.GetObjectKind().GroupVersionKind().Version, gk.Kind, o.GetNamespace() != "")
		}
	}
	return out
}
