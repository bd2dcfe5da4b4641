// How values become bytes: plain data as it lies in (little-endian) memory, containers as a
// 64-bit count and then their elements.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/string.h>
#include <tvm/support/io.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace tvm::support {

static_assert(std::endian::native == std::endian::little, "the formats are little-endian");

// Files and packets name their own sizes: memory grows with the bytes that really come.
constexpr size_t kReadStep = size_t{1} << 20;

template <typename T>
struct Serializer {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>, "not plain data");
  static constexpr bool enabled = true;
  static void Write(Stream* out, const T& value) { WriteMany(out, &value, 1); }
  static bool Read(Stream* in, T* value) { return ReadMany(in, value, 1); }
  static void WriteMany(Stream* out, const T* values, size_t count) {
    out->Write(static_cast<const void*>(values), sizeof(T) * count);
  }
  static bool ReadMany(Stream* in, T* values, size_t count) {
    return in->Read(static_cast<void*>(values), sizeof(T) * count) == sizeof(T) * count;
  }
};

template <>
struct Serializer<std::string> {
  static constexpr bool enabled = true;
  static void Write(Stream* out, const std::string& value) {
    out->Write(static_cast<uint64_t>(value.size()));
    out->WriteArray(value.data(), value.size());
  }
  static bool Read(Stream* in, std::string* value) {
    uint64_t size;
    if (!in->Read(&size)) return false;
    value->clear();
    while (value->size() < size) {
      size_t begin = value->size();
      size_t step = std::min<uint64_t>(kReadStep, size - begin);
      value->resize(begin + step);
      if (!in->ReadArray(value->data() + begin, step)) return false;
    }
    return true;
  }
};

template <typename T>
struct Serializer<std::vector<T>> {
  static constexpr bool enabled = true;
  static void Write(Stream* out, const std::vector<T>& values) {
    out->Write(static_cast<uint64_t>(values.size()));
    for (const T& value : values) out->Write(value);
  }
  static bool Read(Stream* in, std::vector<T>* values) {
    uint64_t size;
    if (!in->Read(&size)) return false;
    values->clear();
    for (uint64_t i = 0; i < size; ++i) {
      T value;
      if (!in->Read(&value)) return false;
      values->push_back(std::move(value));
    }
    return true;
  }
};

template <>
struct Serializer<ffi::String> {
  static constexpr bool enabled = true;
  static void Write(Stream* out, const ffi::String& value) { out->Write(std::string(value)); }
  static bool Read(Stream* in, ffi::String* value) {
    std::string text;
    if (!in->Read(&text)) return false;
    *value = std::move(text);
    return true;
  }
};

template <typename T>
struct Serializer<ffi::Array<T>> {
  static constexpr bool enabled = true;
  static void Write(Stream* out, const ffi::Array<T>& values) {
    out->Write(std::vector<T>(values.begin(), values.end()));
  }
  static bool Read(Stream* in, ffi::Array<T>* values) {
    std::vector<T> read;
    if (!in->Read(&read)) return false;
    *values = ffi::Array<T>(read.begin(), read.end());
    return true;
  }
};

}  // namespace tvm::support
