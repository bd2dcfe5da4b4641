#include "stream.h"

#include <algorithm>

namespace emulated {
namespace {

// Captures that are going on, in this process.
std::vector<std::weak_ptr<Capture>>& Captures() {
  static auto& captures = *new std::vector<std::weak_ptr<Capture>>;
  return captures;
}

}  // namespace

Stream* StreamOf(CUstream handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number == 0 || number == CU_STREAM_LEGACY) return CurrentContext()->null_stream;
  return All<Stream>().Has(handle) ? handle : nullptr;
}

CUresult Enqueue(Stream* stream, Work work) {
  if (stream->capture) {
    if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    stream->capture->work.push_back(std::move(work));
    auto& unjoined = stream->capture->unjoined;
    if (stream != stream->capture->origin && std::count(unjoined.begin(), unjoined.end(), stream) == 0) {
      unjoined.push_back(stream);
    }
    return CUDA_SUCCESS;
  }
  Entry entry{std::move(work), {}};
  Context* context = stream->context;
  if (stream->null) {
    for (Stream* other : context->streams) {
      if (!other->blocking) continue;
      if (other->capture) {  // the null stream would wait for what is not done
        other->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
      entry.after.emplace_back(other, other->enqueued);
    }
  } else if (stream->blocking) {
    entry.after.emplace_back(context->null_stream, context->null_stream->enqueued);
  }
  stream->entries.push_back(std::move(entry));
  ++stream->enqueued;
  return CUDA_SUCCESS;
}

CUresult Finish(Stream* stream, std::uint64_t number) {
  while (stream->done < number && !stream->entries.empty()) {
    const Entry entry = std::move(stream->entries.front());
    stream->entries.pop_front();
    ++stream->done;  // at once: what it waits for may wait for what was before it
    for (const auto& [other, before] : entry.after) {
      if (const CUresult result = Finish(other, before); result != CUDA_SUCCESS) return result;
    }
    if (const CUresult result = entry.work(); result != CUDA_SUCCESS) {
      stream->entries.clear();
      stream->done = stream->enqueued;
      return result;
    }
  }
  return CUDA_SUCCESS;
}

CUresult FinishAll(Context* context) {
  for (auto at = context->streams.rbegin(); at != context->streams.rend(); ++at) {  // the newest first
    if (const CUresult result = Finish(*at, (*at)->enqueued); result != CUDA_SUCCESS) return result;
  }
  return Finish(context->null_stream, context->null_stream->enqueued);
}

void Began(const std::shared_ptr<Capture>& capture) { Captures().push_back(capture); }

CUresult Unsafe() {
  CUresult result = CUDA_SUCCESS;
  for (const auto& each : Captures()) {
    const auto capture = each.lock();
    if (!capture || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    if (capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && capture->thread != std::this_thread::get_id()) continue;
    capture->invalid = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

}  // namespace emulated
