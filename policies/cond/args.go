package cond

import (
	"fmt"
	"math"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// argsType is the name of the type of args in a condition that knows its fields.
const argsType = "args"

// provider knows the types of the language, and the type of args.
type provider struct {
	types.Provider
	args Args
}

func (p provider) FindStructType(name string) (*types.Type, bool) {
	if name == argsType {
		return types.NewTypeTypeWithParam(types.NewObjectType(argsType)), true
	}
	return p.Provider.FindStructType(name)
}

func (p provider) FindStructFieldNames(name string) ([]string, bool) {
	if name == argsType {
		return p.args.names(), true
	}
	return p.Provider.FindStructFieldNames(name)
}

func (p provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name != argsType {
		return p.Provider.FindStructFieldType(name, field)
	}
	t, ok := p.args[field]
	if !ok {
		return nil, false
	}
	return &types.FieldType{
		Type: celType(t),
		IsSet: func(target any) bool {
			all, _ := target.(map[string]any)
			_, ok := all[field]
			return ok
		},
		GetFrom: func(target any) (any, error) {
			all, ok := target.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("the arguments are a %T", target)
			}
			return read(all[field], field, t)
		},
	}, true
}

// NewValue returns an error: conditions cannot make arguments, because only a call has
// them.
func (p provider) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if name == argsType {
		return types.NewErr("arguments cannot be made")
	}
	return p.Provider.NewValue(name, fields)
}

func celType(t Type) *cel.Type {
	switch t {
	case Bool:
		return cel.BoolType
	case Int:
		return cel.IntType
	case Text:
		return cel.StringType
	case Texts:
		return cel.ListType(cel.StringType)
	case Named:
		return cel.MapType(cel.StringType, cel.StringType)
	case Any:
	}
	return cel.DynType
}

// read returns an argument as a value of the type for which the condition was compiled.
func read(v any, name string, t Type) (any, error) {
	switch v := v.(type) {
	case nil:
		return zero(t), nil
	case bool:
		if t == Bool {
			return v, nil
		}
	case string:
		if t == Text {
			return v, nil
		}
	case float64:
		if t == Int {
			// Beyond 2^53 a JSON number is no longer the one that was written.
			if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
				return nil, fmt.Errorf("argument %s is %v, which is not a whole number", name, v)
			}
			return int64(v), nil
		}
	case []any:
		if t == Texts {
			return v, nil
		}
	case map[string]any:
		if t == Named {
			return v, nil
		}
	}
	if t == Any {
		return v, nil
	}
	return nil, fmt.Errorf("argument %s is of another type than the tool takes", name)
}

// zero returns the value of an argument that the call leaves out.
func zero(t Type) any {
	switch t {
	case Bool:
		return false
	case Int:
		return int64(0)
	case Text:
		return ""
	case Texts:
		return []string{}
	case Named:
		return map[string]string{}
	case Any:
	}
	return types.NullValue
}
