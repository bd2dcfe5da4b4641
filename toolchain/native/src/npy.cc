#include "npy.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "edge_rt.h"
#include "failure.h"
#include "file.h"
#include "folder.h"
#include "text.h"

namespace edge {
namespace {

struct Dtype {
  const char* name;
  const char* descr;  // without the byte order
  size_t bytes;
};
constexpr Dtype kDtypes[] = {{"float16", "f2", 2}, {"float32", "f4", 4}, {"float64", "f8", 8},
                             {"int8", "i1", 1},    {"int16", "i2", 2},   {"int32", "i4", 4},
                             {"int64", "i8", 8},   {"uint8", "u1", 1},   {"uint16", "u2", 2},
                             {"uint32", "u4", 4},  {"uint64", "u8", 8},  {"bool", "b1", 1}};

// The header is a Python dictionary with exactly three keys, in any order.
class Header {
 public:
  explicit Header(std::string_view text) : text_(text) {}

  // False when it is not such a dictionary.
  bool Parse(std::string* descr, bool* fortran, std::vector<int64_t>* shape) {
    if (!Take('{')) return false;
    int seen = 0;
    while (!Take('}')) {
      std::string key;
      if (!String(&key) || !Take(':')) return false;
      if (key == "descr" && String(descr)) {
        seen |= 1;
      } else if (key == "fortran_order" && Boolean(fortran)) {
        seen |= 2;
      } else if (key == "shape" && Tuple(shape)) {
        seen |= 4;
      } else {
        return false;
      }
      if (!Take(',') && Peek() != '}') return false;
    }
    Peek();
    return seen == 7 && text_.empty();
  }

 private:
  char Peek() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
    return text_.empty() ? '\0' : text_[0];
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool String(std::string* out) {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return false;
    const size_t end = text_.find(quote, 1);
    if (end == text_.npos) return false;
    *out = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return true;
  }
  bool Boolean(bool* out) {
    Peek();
    for (std::string_view word : {"True", "False"}) {
      if (text_.substr(0, word.size()) != word) continue;
      *out = word == "True";
      text_.remove_prefix(word.size());
      return true;
    }
    return false;
  }
  bool Tuple(std::vector<int64_t>* out) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      int64_t value = 0;
      if (Peek() < '0' || Peek() > '9' || out->size() == 32) return false;
      while (!text_.empty() && text_[0] >= '0' && text_[0] <= '9') {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text_[0] - '0', &value)) {
          return false;
        }
        text_.remove_prefix(1);
      }
      out->push_back(value);
      if (!Take(',') && Peek() != ')') return false;
    }
    return true;
  }

  std::string_view text_;
};

uint32_t Little(const std::string& bytes, size_t at, int count) {
  uint32_t value = 0;
  for (int i = count - 1; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

void Put(std::string* out, uint64_t value, int count) {
  for (int i = 0; i < count; ++i) *out += static_cast<char>(value >> 8 * i);
}

uint32_t Crc32(uint32_t crc, const void* data, size_t size) {
  static const std::vector<uint32_t> table = [] {
    std::vector<uint32_t> values(256);
    for (uint32_t i = 0; i < 256; ++i) {
      values[i] = i;
      for (int bit = 0; bit < 8; ++bit) {
        values[i] = values[i] >> 1 ^ ((values[i] & 1) != 0 ? 0xEDB88320u : 0u);
      }
    }
    return values;
  }();
  const auto* bytes = static_cast<const uint8_t*>(data);
  crc = ~crc;
  for (size_t i = 0; i < size; ++i) crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 255];
  return ~crc;
}

std::string NpyHeader(const NamedArray& array) {
  std::string descr;
  for (const Dtype& dtype : kDtypes) {
    if (array.dtype == dtype.name) descr = (dtype.bytes == 1 ? "|" : "<") + std::string(dtype.descr);
  }
  if (descr.empty()) {
    throw Failure(EDGE_FAILED, kIo, "output " + array.name + " has the type " + array.dtype +
                                         ", which .npz files can't hold");
  }
  std::string text = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (int64_t extent : array.shape) text += std::to_string(extent) + ",";
  text += "), }";
  // Magic, version 1.0, 16-bit length; numpy aligns the data to 64 bytes.
  text.append(63 - (10 + text.size()) % 64, ' ');
  text += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  Put(&out, text.size(), 2);
  return out + text;
}

// Zip's fields that a local header and the central directory share, from "version needed" on.
// The date is zip's first day, so that the same outputs make the same file.
std::string ZipFields(uint32_t crc, uint32_t size, size_t name) {
  std::string out;
  Put(&out, 20, 2);
  Put(&out, 0x0800, 2);  // names are UTF-8
  Put(&out, 0, 2);       // stored
  Put(&out, 0, 2);
  Put(&out, 0x21, 2);
  Put(&out, crc, 4);
  Put(&out, size, 4);
  Put(&out, size, 4);
  Put(&out, name, 2);
  Put(&out, 0, 2);
  return out;
}

// Files PATH.tmpPID that processes which were killed left behind.
void RemoveStale(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "./" : path.substr(0, slash + 1);
  const std::string start = path.substr(slash == path.npos ? 0 : slash + 1) + ".tmp";
  for (const std::string& name : OpenFolder(AT_FDCWD, folder).Names()) {
    if (!name.starts_with(start)) continue;
    const auto pid = WholeNumber(std::string_view(name).substr(start.size()), INT_MAX);
    if (pid && *pid > 0 && kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH) unlink((folder + name).c_str());
  }
}

class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : path_(path), temp_(path + ".tmp" + std::to_string(getpid())) {
    RemoveStale(path_);
    // Whatever else has that name, a link in a shared folder perhaps, is not written to.
    unlink(temp_.c_str());
    file_ = Fd(open(temp_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!file_) throw Io("cannot write " + path_);
  }
  ~NewFile() {
    if (!done_) unlink(temp_.c_str());
  }
  void Append(std::string_view bytes) {
    if (!WriteWhole(file_.get(), bytes)) throw Io("cannot write " + path_);
  }
  void Finish() {
    if (fsync(file_.get()) != 0 || rename(temp_.c_str(), path_.c_str()) != 0) {
      throw Io("cannot write " + path_);
    }
    done_ = true;
    const size_t slash = path_.rfind('/');
    const std::string folder = slash == path_.npos ? "." : path_.substr(0, slash + 1);
    const Fd opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (opened) fsync(opened.get());
  }

 private:
  std::string path_, temp_;
  Fd file_;
  bool done_ = false;
};

}  // namespace

Array ReadNpy(const std::string& path) {
  const auto refuse = [&](std::initializer_list<Piece> why) { Throw(EDGE_USAGE, "input", {path, ": ", Cat(why)}); };
  const auto unreadable = [&] { refuse({"cannot be read: ", std::strerror(errno)}); };
  const File file(path);
  if (file.fd() < 0) unreadable();
  const int64_t size = file.Size();
  if (size < 0) refuse({"not a file"});
  const auto take = [&](std::string* bytes, int64_t count) {
    bytes->resize(static_cast<size_t>(count));
    const ssize_t got = ReadWhole(file.fd(), bytes->data(), bytes->size());
    if (got < 0) unreadable();
    if (static_cast<size_t>(got) < bytes->size()) refuse({"it was cut while it was read"});
  };
  std::string head;
  take(&head, std::min<int64_t>(size, 12));
  if (size < 10 || head.compare(0, 6, "\x93NUMPY") != 0) refuse({"not a .npy file"});
  const int version = head[6];
  if (version < 1 || version > 3) refuse({".npy version ", version, " is unknown"});
  const int64_t begin = version == 1 ? 10 : 12;
  if (size < begin) refuse({"the header is cut off"});
  const int64_t length = Little(head, 8, version == 1 ? 2 : 4);
  if (length > size - begin) refuse({"the header is cut off"});
  if (lseek(file.fd(), begin, SEEK_SET) < 0) unreadable();
  std::string header;
  take(&header, length);

  Array array;
  std::string descr;
  bool fortran = false;
  if (!Header(header).Parse(&descr, &fortran, &array.shape)) {
    refuse({"the header is malformed"});
  }
  if (fortran) refuse({"Fortran order; save numpy.ascontiguousarray(x)"});
  size_t needed = 0;
  for (const Dtype& dtype : kDtypes) {
    const bool order = descr.size() == 3 && (descr[0] == '<' || descr[0] == '=' ||
                                             (descr[0] == '|' && dtype.bytes == 1));
    if (!order || descr.compare(1, 2, dtype.descr) != 0) continue;
    array.dtype = dtype.name;
    needed = dtype.bytes;
  }
  if (array.dtype.empty()) refuse({"the type ", Quote(descr), " is not supported"});
  for (int64_t extent : array.shape) {
    if (__builtin_mul_overflow(needed, extent, &needed)) refuse({"the shape is too large"});
  }
  const int64_t have = size - begin - length;
  if (static_cast<uint64_t>(have) != needed) {
    refuse({"the header promises ", needed, " bytes of data, there are ", have});
  }
  take(&array.data, have);
  return array;
}

void WriteNpz(const std::string& path, const std::vector<NamedArray>& arrays) {
  NewFile file(path);
  std::string directory;
  uint64_t offset = 0;
  for (const NamedArray& array : arrays) {
    const std::string name = array.name + ".npy", header = NpyHeader(array);
    const uint64_t size = header.size() + array.bytes;
    if (offset + size + directory.size() > 0xffff0000u || name.size() > 0xff00u ||
        arrays.size() >= 0xffffu) {
      throw Failure(EDGE_FAILED, kIo, "outputs above 4 GiB, or too many, or with too long a name");
    }
    const uint32_t crc = Crc32(Crc32(0, header.data(), header.size()), array.data, array.bytes);
    const std::string fields = ZipFields(crc, size, name.size());
    directory += "PK\x01\x02";
    Put(&directory, 20, 2);
    directory += fields;
    directory.append(2 + 2 + 2 + 4, '\0');  // comment, disk, attributes
    Put(&directory, offset, 4);
    directory += name;
    const std::string local = "PK\x03\x04" + fields + name;
    file.Append(local);
    file.Append(header);
    file.Append({static_cast<const char*>(array.data), array.bytes});
    offset += local.size() + size;
  }
  std::string end = "PK\x05\x06";
  Put(&end, 0, 4);
  Put(&end, arrays.size(), 2);
  Put(&end, arrays.size(), 2);
  Put(&end, directory.size(), 4);
  Put(&end, offset, 4);
  Put(&end, 0, 2);
  file.Append(directory + end);
  file.Finish();
}

}  // namespace edge
