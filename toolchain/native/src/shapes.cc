#include "shapes.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/shape.h>

#include <algorithm>
#include <cstring>

#include "edge_rt.h"
#include "failure.h"
#include "library.h"

using tvm::ffi::Any;
using tvm::ffi::Array;
using tvm::ffi::Function;
using tvm::ffi::Module;
using tvm::runtime::Tensor;

namespace edge {
namespace {

constexpr int64_t kMostElements = INT64_MAX / 1024;  // of all inputs: sums of two do not wrap around

// The toolchain's name for the function of a shape (models/multi_shape.py).
std::string EntryName(size_t number) { return number == 0 ? "main" : "main_" + std::to_string(number); }

Function Entry(const Module& machine, const std::string& name) {
  const auto found = machine->GetFunction(name);
  if (!found.has_value()) throw Failure(EDGE_FAILED, "load", "the library has no function " + name);
  return found.value();
}

int64_t Elements(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count) || count > kMostElements) {
      throw Failure(EDGE_FAILED, "load", "the library's table of shapes is damaged");
    }
  }
  return count;
}

std::string Text(const int64_t* shape, size_t count) {
  std::string text;
  for (size_t axis = 0; axis < count; ++axis) text += (axis == 0 ? "" : ",") + std::to_string(shape[axis]);
  return text;
}

// As `--shape` takes it: "x=1,3,48,160 y=1,40".
std::string Text(const edge_library& library, const NetworkShape& shape) {
  std::string text;
  for (size_t i = 0; i < shape.inputs.size(); ++i) {
    text += (i == 0 ? "" : " ") + library.names[i] + "=" + Text(shape.inputs[i].data(), shape.inputs[i].size());
  }
  return text;
}

bool IsShape(const Tensor& tensor, const std::vector<int64_t>& shape) {
  return static_cast<size_t>(tensor->ndim) == shape.size() &&
         std::memcmp(tensor->shape, shape.data(), shape.size() * sizeof(int64_t)) == 0;
}

bool FitsInto(const Tensor& tensor, const std::vector<int64_t>& shape) {
  return static_cast<size_t>(tensor->ndim) == shape.size() &&
         std::equal(shape.begin(), shape.end(), tensor->shape, [](int64_t room, int64_t extent) { return extent <= room; });
}

template <typename Fits>
bool AllFit(const edge_library& library, const NetworkShape& shape, Fits fits) {
  for (size_t i = 0; i < shape.inputs.size(); ++i) {
    if (!fits(library.inputs[i].value(), shape.inputs[i])) return false;
  }
  return true;
}

// The tensor, with zeros behind it on every axis.
Tensor Padded(const Tensor& tensor, const std::vector<int64_t>& shape, const tvm::Device& device) {
  if (IsShape(tensor, shape)) return tensor;
  const Tensor source = IsCpu(tensor->device) ? tensor : tensor.CopyTo(kCpu);
  const Tensor target = Tensor::Empty(tvm::ffi::Shape(shape), tensor->dtype, kCpu);
  const size_t bytes = (tensor->dtype.bits * tensor->dtype.lanes + 7) / 8, last = shape.size() - 1;
  char* to = static_cast<char*>(target->data);
  std::memset(to, 0, tvm::ffi::GetDataSize(*target.operator->()));
  const auto* from = static_cast<const char*>(source->data) + source->byte_offset;
  size_t rows = 1;
  for (size_t axis = 0; axis < last; ++axis) rows *= source->shape[axis];
  const size_t row_bytes = source->shape[last] * bytes;
  for (size_t row = 0; row < rows; ++row) {
    size_t rest = row, place = 0, stride = 1;  // the row's place in the target, in rows
    for (size_t axis = last; axis-- > 0; stride *= shape[axis], rest /= source->shape[axis]) {
      place += rest % source->shape[axis] * stride;
    }
    std::memcpy(to + place * shape[last] * bytes, from + row * row_bytes, row_bytes);
  }
  return IsCpu(device) ? target : target.CopyTo(device);
}

const NetworkShape& Choose(const edge_library& library) {
  for (const NetworkShape& shape : library.shapes) {
    if (AllFit(library, shape, IsShape)) return shape;
  }
  const NetworkShape* best = nullptr;
  for (const NetworkShape& shape : library.shapes) {
    if (!library.pad || !AllFit(library, shape, FitsInto)) continue;
    if (best == nullptr || shape.elements < best->elements) best = &shape;
  }
  if (best != nullptr) return *best;
  std::string have, known;
  for (size_t i = 0; i < library.inputs.size(); ++i) {
    const Tensor tensor = library.inputs[i].value();
    have += (i == 0 ? "" : " ") + library.names[i] + "=" + Text(tensor->shape, tensor->ndim);
  }
  for (const NetworkShape& shape : library.shapes) known += (known.empty() ? "" : "; ") + Text(library, shape);
  throw Failure(EDGE_USAGE, "shape",
                "the inputs have the shape " + have + (library.pad ? ", which fits into none of: " : "; there are: ") + known);
}

}  // namespace

std::vector<NetworkShape> ReadShapes(const Module& machine, size_t inputs) {
  const auto table = machine->GetFunction("shapes");
  if (!table.has_value()) return {{"main", Entry(machine, "main"), {}, 0}};
  std::vector<NetworkShape> shapes;
  const Any rows = table.value()();
  for (const Any& row : rows.cast<Array<Any>>()) {
    NetworkShape shape{EntryName(shapes.size()), Entry(machine, EntryName(shapes.size())), {}, 0};
    for (const Any& input : row.cast<Array<Any>>()) {
      const auto extents = input.cast<tvm::ffi::Shape>();
      shape.inputs.emplace_back(extents.begin(), extents.end());
      shape.elements += Elements(shape.inputs.back());
    }
    if (shape.inputs.size() != inputs) throw Failure(EDGE_FAILED, "load", "the library's table of shapes is damaged");
    shapes.push_back(std::move(shape));
  }
  if (shapes.empty()) throw Failure(EDGE_FAILED, "load", "the library's table of shapes is empty");
  return shapes;
}

void ChooseShape(edge_library* library) {
  if (!library->changed) return;
  for (size_t i = 0; i < library->inputs.size(); ++i) {
    if (!library->inputs[i].has_value()) throw Usage("input " + library->names[i] + " is not set");
  }
  const NetworkShape& shape = library->shapes.size() == 1 ? library->shapes[0] : Choose(*library);
  library->arguments.clear();
  for (size_t i = 0; i < library->inputs.size(); ++i) {
    const Tensor tensor = library->inputs[i].value();
    library->arguments.push_back(shape.inputs.empty() ? tensor : Padded(tensor, shape.inputs[i], library->device));
  }
  if (library->chosen != &shape) library->number = 0;  // runs of another length
  library->chosen = &shape;
  library->changed = false;
}

}  // namespace edge
