package control

import (
	"reflect"
	"strings"
)

// withLists returns v, with each nil slice and map in it that is always sent
// made an empty one: programs get [] and {}, never null. A pointer's value is
// changed in place; what may be left out is left alone.
func withLists(v any) any {
	from := reflect.ValueOf(v)
	if from.Kind() == reflect.Pointer {
		fillLists(from)
		return v
	}
	copied := reflect.New(from.Type())
	copied.Elem().Set(from)
	fillLists(copied)
	return copied.Interface()
}

func fillLists(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fillLists(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !strings.HasSuffix(f.Tag.Get("json"), ",omitempty") {
				fillLists(v.Field(i))
			}
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
	case reflect.Slice:
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		if holdsLists(v.Type().Elem()) {
			for i := range v.Len() {
				fillLists(v.Index(i))
			}
		}
	}
}

// holdsLists spares the walk through what can hold no list.
func holdsLists(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Pointer, reflect.Slice:
		return true
	}
	return false
}
