package chart

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rendered returns the files that scripts/chart has made: the output of helm for each set
// of values.
func rendered(t *testing.T) []string {
	t.Helper()
	dir := os.Getenv("BELLJAR_TEST_CHART")
	if dir == "" {
		t.Skip("make test-chart runs it: it needs helm and the schemas of Kubernetes")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files in %s: %v", len(files), dir, err)
	}
	return files
}

// Kubernetes accepts every object that the chart renders, and every key in them is known.
func TestChartIsValid(t *testing.T) {
	files := rendered(t)
	s := readSchemas(t, os.Getenv("BELLJAR_TEST_SWAGGER"), os.Getenv("BELLJAR_TEST_CRD"))
	kinds := make(map[string]int)
	for _, file := range files {
		for _, o := range decode(t, file) {
			kinds[text(any(o), "kind")]++
			if err := s.validate(o); err != nil {
				t.Errorf("%s: %s %s: %v", filepath.Base(file), text(any(o), "kind"), text(any(o), "metadata", "name"), err)
			}
		}
	}
	t.Logf("%d files, objects by kind: %v", len(files), kinds)
	for _, kind := range []string{"StatefulSet", "Service", "ConfigMap", "PodDisruptionBudget", "NetworkPolicy", "Ingress", "ServiceMonitor", "ServiceAccount", "ClusterRoleBinding"} {
		if kinds[kind] == 0 {
			t.Errorf("no values render a %s", kind)
		}
	}
	// These objects are wrong: the schemas must refuse them.
	for _, spoil := range []func(object){
		func(o object) { o["sepc"] = object{} },
		func(o object) { part(any(o), "spec")["replicas"] = "two" },
		func(o object) { delete(part(any(o), "spec"), "selector") },
		func(o object) {
			part(list(any(o), "spec", "template", "spec", "containers")[0])["securtyContext"] = object{}
		},
	} {
		for _, o := range decode(t, files[0]) {
			if text(any(o), "kind") != "StatefulSet" {
				continue
			}
			spoil(o)
			if s.validate(o) == nil {
				t.Error("an object that is not valid passes")
			}
		}
	}
}

// Each name in selectors, volumes, ports and accounts refers to something that exists.
func TestChartHangsTogether(t *testing.T) {
	for _, file := range rendered(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			all := decode(t, file)
			var pods []object // pod templates
			have := make(map[string]bool)
			for _, o := range all {
				have[text(any(o), "kind")+" "+text(any(o), "metadata", "name")] = true
				if template := part(any(o), "spec", "template"); template != nil {
					pods = append(pods, template)
				}
			}
			for _, o := range all {
				name := text(any(o), "kind") + " " + text(any(o), "metadata", "name")
				if err := checkSelector(o, pods); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				for _, fault := range checkPod(o, have) {
					t.Errorf("%s: %s", name, fault)
				}
			}
		})
	}
}

// checkSelector reports a selector that chooses no pod, or names a port that its pods lack.
func checkSelector(o object, pods []object) error {
	selector := part(any(o), "spec", "selector")
	switch text(any(o), "kind") {
	case "Service":
	case "NetworkPolicy":
		selector = part(any(o), "spec", "podSelector", "matchLabels")
	case "StatefulSet", "PodDisruptionBudget":
		selector = part(selector, "matchLabels")
	default:
		return nil
	}
	if len(selector) == 0 {
		return fmt.Errorf("it has no selector")
	}
	ports, chosen := make(map[string]bool), 0
	for _, pod := range pods {
		labels := part(any(pod), "metadata", "labels")
		if !covers(labels, selector) {
			continue
		}
		chosen++
		for _, c := range list(any(pod), "spec", "containers") {
			for _, p := range list(c, "ports") {
				ports[text(p, "name")] = true
			}
		}
	}
	if chosen == 0 {
		return fmt.Errorf("no pod has the labels %v", selector)
	}
	wanted := list(any(o), "spec", "ports")
	for _, rule := range list(any(o), "spec", "ingress") {
		wanted = append(wanted, list(rule, "ports")...)
	}
	for _, p := range wanted {
		for _, key := range []string{"targetPort", "port"} {
			if name := text(p, key); name != "" && !ports[name] {
				return fmt.Errorf("its pods have no port %q, but %v", name, slices.Sorted(maps.Keys(ports)))
			}
		}
	}
	return nil
}

func covers(labels, selector object) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// checkPod returns the names that an object's pod template uses and that do not exist.
func checkPod(o object, have map[string]bool) (faults []string) {
	spec := at(any(o), "spec", "template", "spec")
	if spec == nil {
		return nil
	}
	if name := text(spec, "serviceAccountName"); !have["ServiceAccount "+name] {
		faults = append(faults, "no account "+name)
	}
	if name := text(any(o), "spec", "serviceName"); !have["Service "+name] {
		faults = append(faults, "no service "+name)
	}
	volumes := make(map[string]bool)
	for _, v := range append(list(spec, "volumes"), list(any(o), "spec", "volumeClaimTemplates")...) {
		volumes[text(v, "name")+text(v, "metadata", "name")] = false
	}
	var places []string // mount paths of volumes
	for _, c := range list(spec, "containers") {
		for _, m := range list(c, "volumeMounts") {
			if _, ok := volumes[text(m, "name")]; !ok {
				faults = append(faults, "no volume "+text(m, "name"))
			}
			volumes[text(m, "name")] = true
			places = append(places, text(m, "mountPath")+"/")
		}
	}
	for name, used := range volumes {
		if !used {
			faults = append(faults, "nothing has the volume "+name)
		}
	}
	for _, c := range list(spec, "containers") {
		for _, a := range list(c, "args") {
			_, value, _ := strings.Cut(fmt.Sprint(a), "=")
			if strings.HasPrefix(value, "/etc/") && !slices.ContainsFunc(places, func(p string) bool { return strings.HasPrefix(value, p) }) {
				faults = append(faults, fmt.Sprintf("%s is in no volume", a))
			}
		}
	}
	return faults
}

// Every container of belljar has arguments that belljar accepts.
func TestChartCommandLines(t *testing.T) {
	tried := 0
	for _, file := range rendered(t) {
		for _, o := range decode(t, file) {
			for _, c := range list(any(o), "spec", "template", "spec", "containers") {
				if !strings.HasPrefix(text(c, "image"), "belljar") {
					continue
				}
				var args []string
				for _, a := range list(c, "args") {
					args = append(args, fmt.Sprint(a))
				}
				tried++
				takes(t, filepath.Base(file), args)
			}
		}
	}
	if tried == 0 {
		t.Error("no container of belljar was found")
	}
}
