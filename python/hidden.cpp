#include "python/hidden.hpp"

#include <unordered_map>

#include "python/gil.hpp"
#include "python/options.hpp"

namespace nb = nanobind;

namespace tilewise::python {
namespace {

bool is_torch(nb::handle object) {
  const nb::object modules = get(imported("sys"), "modules");
  if (!nb::cast<bool>(call(get(modules, "__contains__"), "torch"))) return false;
  const nb::object tensor = get(nb::object(modules[nb::str("torch")]), "Tensor");
  return stay_at_the_end([&] { return PyObject_IsInstance(object.ptr(), tensor.ptr()) == 1; });
}

void refuse_pending(nb::handle tensor, const std::string& name) {
  if (nb::cast<bool>(call(get(tensor, "is_neg"))))
    throw nb::value_error(
        (name + " has its sign pending (is_neg()): pass resolve_neg() of it").c_str());
  if (!nb::cast<bool>(get(tensor, "requires_grad"))) return;
  static const nb::handle enabled = get(imported("torch"), "is_grad_enabled").release();
  if (nb::cast<bool>(call(nb::borrow(enabled))))
    throw nb::value_error((name +
                           " requires a gradient, which this product would not have: detach it, or "
                           "call this under torch.no_grad()")
                              .c_str());
}

}  // namespace

const ArrayType& array_type_of(nb::handle object) {
  static auto& known = *new std::unordered_map<PyTypeObject*, ArrayType>;
  PyTypeObject* type = Py_TYPE(object.ptr());
  if (const auto found = known.find(type); found != known.end()) return found->second;
  ArrayType made;
  made.torch = is_torch(object);
  made.meaning = text_of(call(get(imported("tilewise._subclasses"), "meaning_of"), object.type()));
  Py_INCREF(type);  // kept, so that its address is not reused
  return known.emplace(type, std::move(made)).first->second;
}

void refuse_hidden(nb::handle object, const ArrayType& type, const std::string& name) {
  if (!type.meaning.empty())
    throw nb::type_error((name +
                          " is of a subclass that may have a meaning beside its memory (a mask, "
                          "a unit), which the product would lose: " +
                          type.meaning + "; pass a plain array, as numpy.asarray(" + name +
                          ") and tensor.as_subclass(torch.Tensor) give it")
                             .c_str());
  if (type.torch) refuse_pending(object, name);
}

void refuse_mask(const nb::dict& interface, const std::string& name) {
  if (interface.contains("mask") && !nb::object(interface["mask"]).is_none())
    throw nb::type_error(
        (name + " has a mask, which the product would lose: fill its masked elements first")
            .c_str());
}

}  // namespace tilewise::python
