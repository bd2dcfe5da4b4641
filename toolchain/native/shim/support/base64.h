// Base64 (RFC 4648) on top of another stream.
#pragma once

#include <tvm/support/io.h>

#include <cstdint>
#include <cstring>

namespace tvm::support {

inline constexpr char kBase64[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

class Base64OutStream : public Stream {
 public:
  explicit Base64OutStream(Stream* out) : out_(out) {}
  using Stream::Read;
  using Stream::Write;
  size_t Read(void*, size_t) final { return 0; }
  size_t Write(const void* ptr, size_t size) final {
    const auto* bytes = static_cast<const uint8_t*>(ptr);
    for (size_t i = 0; i < size; ++i) {
      group_ = group_ << 8 | bytes[i];
      if (++filled_ == 3) Emit();
    }
    return size;
  }
  void Finish() {
    if (filled_ != 0) Emit();
  }

 private:
  void Emit() {
    group_ <<= 8 * (3 - filled_);
    char text[4];
    for (int i = 0; i < 4; ++i) {
      text[i] = i <= filled_ ? kBase64[group_ >> (18 - 6 * i) & 63] : '=';
    }
    out_->Write(static_cast<const void*>(text), sizeof(text));
    group_ = 0;
    filled_ = 0;
  }

  Stream* out_;
  uint32_t group_ = 0;
  int filled_ = 0;
};

class Base64InStream : public Stream {
 public:
  explicit Base64InStream(Stream* in) : in_(in) {}
  using Stream::Read;
  using Stream::Write;
  void InitPosition() {}
  size_t Read(void* ptr, size_t size) final {
    auto* bytes = static_cast<uint8_t*>(ptr);
    size_t done = 0;
    while (done < size) {
      if (left_ == 0 && !Fill()) break;
      bytes[done++] = static_cast<uint8_t>(group_ >> 16);
      group_ <<= 8;
      --left_;
    }
    return done;
  }
  size_t Write(const void*, size_t) final { return 0; }

 private:
  bool Fill() {
    group_ = 0;
    int digits = 0;
    bool ended = false;
    while (digits < 4) {
      char c;
      if (in_->Read(static_cast<void*>(&c), 1) != 1) return false;
      if (c == '\n' || c == '\r' || c == ' ') continue;
      const char* at = c == '\0' ? nullptr : std::strchr(kBase64, c);
      if (c != '=' && (at == nullptr || ended)) return false;
      ended = ended || c == '=';
      if (!ended) ++left_;
      group_ = group_ << 6 | static_cast<uint32_t>(ended ? 0 : at - kBase64);
      ++digits;
    }
    left_ = left_ > 0 ? left_ - 1 : 0;
    return left_ > 0;
  }

  Stream* in_;
  uint32_t group_ = 0;
  int left_ = 0;
};

}  // namespace tvm::support
