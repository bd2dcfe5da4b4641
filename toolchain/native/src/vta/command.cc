#include "vta/command.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "edge_rt.h"
#include "failure.h"
#include "file.h"
#include "text.h"
#include "vta/request.h"

namespace edge {
namespace {

// The number of bytes that came before the end.
size_t Read(void* to, size_t bytes) {
  const ssize_t got = ReadWhole(STDIN_FILENO, to, bytes);
  if (got < 0) throw Io("cannot read a request");
  return static_cast<size_t>(got);
}

void ReadAll(std::vector<uint8_t>& to, size_t bytes, const char* what) {
  to.resize(bytes);
  const size_t came = Read(to.data(), bytes);
  if (came == bytes) return;
  throw Usage(std::string("a request was cut: of its ") + what + " " + Counted(static_cast<int64_t>(came), "byte") + " came, not " +
              std::to_string(bytes));
}

void Write(const void* from, size_t bytes) {
  if (!WriteWhole(STDOUT_FILENO, {static_cast<const char*>(from), bytes})) throw Io("cannot write an answer");
}

// One accelerator is kept for requests that follow each other with the same configuration.
class Server {
 public:
  // False at the end of the standard input.
  bool Answer() {
    vta::RequestHeader header;
    const size_t came = Read(&header, sizeof header);
    if (came == 0) return false;
    if (came != sizeof header) {
      throw Usage("a request was cut: of its header " + Counted(static_cast<int64_t>(came), "byte") + " came, not " +
                  std::to_string(sizeof header));
    }
    if (const std::string why = vta::Unreadable(header); !why.empty()) throw Usage(why);
    ReadAll(program_, size_t{16} * header.instructions, "instructions");
    const bool computes = (header.flags & vta::kTimeOnly) == 0;
    if (computes) ReadAll(arena_, header.arena_bytes, "arena");
    Run(header, computes);
    return true;
  }

 private:
  void Run(const vta::RequestHeader& header, bool computes) {
    vta::AnswerHeader answer{vta::kAnswerMagic, vta::kVersion, header.id, 0, 0, 0, 0};
    std::string document;
    vta::Outcome outcome;
    try {
      if (!machine_ || std::memcmp(&config_, &header.config, sizeof config_) != 0) {
        machine_.reset();
        machine_ = std::make_unique<vta::Machine>(header.config);
        config_ = header.config;
      }
      const vta::Arena arena{arena_.data(), header.arena_bytes, header.base};
      const vta::Mode mode{(header.flags & vta::kStrict) != 0, computes};
      outcome = machine_->Run(program_.data(), header.instructions, arena, header.model, header.limits, mode);
      document = vta::Document(outcome);
      if (computes && (header.flags & vta::kNoArena) == 0) answer.arena_bytes = header.arena_bytes;
      if ((header.flags & vta::kTimeline) != 0) {
        answer.timeline_bytes = static_cast<uint32_t>(outcome.timeline.size() * sizeof(vta::Interval));
      }
    } catch (const vta::Refusal& refusal) {
      answer.refused = 1;
      document = vta::Document(refusal);
    }
    answer.document_bytes = static_cast<uint32_t>(document.size());
    Write(&answer, sizeof answer);
    Write(document.data(), document.size());
    Write(arena_.data(), answer.arena_bytes);
    Write(outcome.timeline.data(), answer.timeline_bytes);
  }

  std::vector<uint8_t> program_, arena_;
  std::unique_ptr<vta::Machine> machine_;
  vta::Config config_{};
};

}  // namespace

int VtaCommand(const Options& options) {
  options.NoMore();
  Server server;
  while (server.Answer()) {
  }
  return EDGE_OK;
}

}  // namespace edge
