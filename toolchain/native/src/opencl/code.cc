#include "opencl/code.h"

#include <algorithm>

#include "opencl/queue.h"
#include "text.h"

namespace edge::opencl {
namespace {

constexpr std::string_view kMark = "// Function: ";

// The source is written kernel by kernel, each with the declarations that it needs: two of them together
// may declare a thing twice.
std::map<std::string, std::string> Sections(const std::string& source) {
  std::map<std::string, std::string> sections;
  for (size_t at = source.find(kMark); at != source.npos;) {
    const size_t name = at + kMark.size(), line = std::min(source.find('\n', at), source.size());
    const size_t next = source.find(kMark, line);
    sections[source.substr(name, line - name)] = source.substr(line, next - line);
    at = next;
  }
  return sections;
}

}  // namespace

std::map<std::string, KernelCode> ReadCode(std::string_view bytes) {
  const Embedded embedded = ReadEmbedded(bytes, kLanguage);
  if (embedded.format != "cl") {
    Fail("the library holds code in the format " + Quote(embedded.format.substr(0, 40)) +
         "; only OpenCL C (\"cl\") is compiled here");
  }
  const std::map<std::string, std::string> sections = Sections(embedded.code);
  std::map<std::string, KernelCode> kernels;
  for (const auto& [key, form] : embedded.kernels) {
    const auto section = sections.find(form.name);
    if (section == sections.end()) Fail("the library has no source of kernel " + form.name);
    if (form.asks_shared) Fail("kernel " + form.name + " asks for local memory when it is begun");
    kernels[key] = {form, section->second};
  }
  return kernels;
}

}  // namespace edge::opencl
