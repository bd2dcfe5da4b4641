// Streams, events, captures, graphs.
#include <algorithm>

#include "api.h"
#include "call.h"
#include "stream.h"

namespace emulated {
namespace {

CUresult Create(Stream** made, bool blocking) {
  auto* stream = new Stream;
  stream->context = CurrentContext();
  stream->blocking = blocking;
  stream->context->streams.push_back(stream);
  *made = All<Stream>().Add(stream);
  return CUDA_SUCCESS;
}

// A call that waits is not allowed while a stream is captured.
CUresult RefuseInCapture(Stream* stream) {
  if (!stream->capture) return CUDA_SUCCESS;
  stream->capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

Work RunAll(std::vector<Work> work) {
  return [work = std::move(work)] {
    for (const Work& each : work) {
      if (const CUresult result = each(); result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  };
}

CUresult Instantiate(CUgraphExec* made, Graph* graph) {
  if (!All<Graph>().Has(graph)) return CUDA_ERROR_INVALID_VALUE;
  *made = All<GraphExec>().Add(new GraphExec{graph->work});
  return CUDA_SUCCESS;
}

}  // namespace

EMULATED_API CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return Do("cuStreamCreate", Needs::kContext, {{"flags", flags}}, [&](Call& call) {
    if (stream == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = Create(stream, flags != CU_STREAM_NON_BLOCKING);
    call.Tell({"stream", static_cast<const void*>(*stream)});
    return result;
  });
}

EMULATED_API CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return Do("cuStreamCreateWithPriority", Needs::kContext, {{"flags", flags}, {"priority", priority}}, [&] {
    if (stream == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    return Create(stream, flags != CU_STREAM_NON_BLOCKING);
  });
}

EMULATED_API CUresult cuStreamDestroy_v2(CUstream handle) {
  return Do("cuStreamDestroy_v2", Needs::kContext, {{"stream", static_cast<const void*>(handle)}}, [&] {
    if (!All<Stream>().Has(handle)) return CUDA_ERROR_INVALID_HANDLE;
    // What it was told is done all the same: the handle is gone at once, the work is not.
    const CUresult result = handle->capture ? CUDA_SUCCESS : Finish(handle, handle->enqueued);
    if (handle->capture) handle->capture->invalid = true;
    auto& streams = handle->context->streams;
    streams.erase(std::remove(streams.begin(), streams.end(), handle), streams.end());
    All<Stream>().Remove(handle);
    // The memory is kept: entries of other streams and events may name it.
    handle->capture.reset();
    return result;
  });
}

EMULATED_API CUresult cuStreamSynchronize(CUstream handle) {
  return Do("cuStreamSynchronize", Needs::kContext, {{"stream", static_cast<const void*>(handle)}}, [&] {
    Stream* stream = StreamOf(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = RefuseInCapture(stream); result != CUDA_SUCCESS) return result;
    if (stream->null) return FinishAll(stream->context);
    return Finish(stream, stream->enqueued);
  });
}

EMULATED_API CUresult cuStreamQuery(CUstream handle) {
  return Do("cuStreamQuery", Needs::kContext, {{"stream", static_cast<const void*>(handle)}}, [&] {
    Stream* stream = StreamOf(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = RefuseInCapture(stream); result != CUDA_SUCCESS) return result;
    if (stream->entries.empty()) return CUDA_SUCCESS;
    // One entry at each question: who asks again gets on.
    const CUresult result = Finish(stream, stream->done + 1);
    return result == CUDA_SUCCESS ? CUDA_ERROR_NOT_READY : result;
  });
}

EMULATED_API CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
  return Do("cuStreamWaitEvent", Needs::kContext, {{"flags", flags}}, [&] {
    Stream* stream = StreamOf(handle);
    if (stream == nullptr || !All<Event>().Has(event)) return CUDA_ERROR_INVALID_HANDLE;
    if (!event->recorded) return CUDA_SUCCESS;
    if (event->capture) {
      if (stream->capture && stream->capture != event->capture) {
        stream->capture->invalid = event->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
      }
      stream->capture = event->capture;
      auto& streams = stream->capture->streams;
      if (std::count(streams.begin(), streams.end(), stream) == 0) streams.push_back(stream);
      auto& unjoined = stream->capture->unjoined;
      if (stream == stream->capture->origin) {
        unjoined.erase(std::remove(unjoined.begin(), unjoined.end(), event->stream), unjoined.end());
      }
      return CUDA_SUCCESS;
    }
    if (stream->capture) {
      stream->capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    const CUresult result = Enqueue(stream, [] { return CUDA_SUCCESS; });
    if (result == CUDA_SUCCESS) stream->entries.back().after.emplace_back(event->stream, event->number);
    return result;
  });
}

EMULATED_API CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return Do("cuEventCreate", Needs::kContext, {{"flags", flags}}, [&] {
    if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *event = All<Event>().Add(new Event);
    (*event)->context = CurrentContext();
    (*event)->timing = !(flags & CU_EVENT_DISABLE_TIMING);
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuEventDestroy_v2(CUevent event) {
  return Do("cuEventDestroy_v2", Needs::kContext, {}, [&] {
    // The memory is kept: a stream may have yet to write its time.
    return All<Event>().Remove(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}

EMULATED_API CUresult cuEventRecord(CUevent event, CUstream handle) {
  return Do("cuEventRecord", Needs::kContext, {{"stream", static_cast<const void*>(handle)}}, [&] {
    Stream* stream = StreamOf(handle);
    if (stream == nullptr || !All<Event>().Has(event)) return CUDA_ERROR_INVALID_HANDLE;
    event->recorded = true;
    event->completed = event->asked = false;
    event->stream = stream;
    event->capture = stream->capture;
    if (stream->capture) return stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    const CUresult result = Enqueue(stream, [event, number = stream->enqueued + 1] {
      if (event->number != number) return CUDA_SUCCESS;  // recorded again since
      event->completed = true;
      event->at = std::chrono::steady_clock::now();
      return CUDA_SUCCESS;
    });
    event->number = stream->enqueued;
    return result;
  });
}

EMULATED_API CUresult cuEventQuery(CUevent event) {
  return Do("cuEventQuery", Needs::kContext, {}, [&] {
    if (!All<Event>().Has(event)) return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
    if (!event->recorded || event->completed) return CUDA_SUCCESS;
    if (!event->asked) {
      event->asked = true;
      return CUDA_ERROR_NOT_READY;
    }
    return Finish(event->stream, event->number);
  });
}

EMULATED_API CUresult cuEventSynchronize(CUevent event) {
  return Do("cuEventSynchronize", Needs::kContext, {}, [&] {
    if (!All<Event>().Has(event)) return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
    return event->recorded ? Finish(event->stream, event->number) : CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuEventElapsedTime(float* ms, CUevent begin, CUevent end) {
  return Do("cuEventElapsedTime", Needs::kContext, {}, [&] {
    if (!All<Event>().Has(begin) || !All<Event>().Has(end)) return CUDA_ERROR_INVALID_HANDLE;
    if (!begin->timing || !end->timing || !begin->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
    if (!begin->completed || !end->completed) return CUDA_ERROR_NOT_READY;
    *ms = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
    return CUDA_SUCCESS;
  });
}
EMULATED_API CUresult cuEventElapsedTime_v2(float* ms, CUevent begin, CUevent end) {
  return cuEventElapsedTime(ms, begin, end);
}

EMULATED_API CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  return Do("cuStreamBeginCapture_v2", Needs::kContext,
            {{"stream", static_cast<const void*>(handle)}, {"mode", mode}}, [&] {
    Stream* stream = StreamOf(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->null) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    stream->capture = std::make_shared<Capture>();
    stream->capture->origin = stream;
    stream->capture->mode = mode;
    stream->capture->thread = std::this_thread::get_id();
    stream->capture->streams = {stream};
    Began(stream->capture);
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return Do("cuStreamIsCapturing", Needs::kContext, {}, [&] {
    Stream* stream = StreamOf(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *status = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return Do("cuStreamEndCapture", Needs::kContext, {{"stream", static_cast<const void*>(handle)}}, [&](Call& call) {
    Stream* stream = StreamOf(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    const auto capture = stream->capture;
    if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id()) {
      return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    for (Stream* each : capture->streams) each->capture.reset();
    *graph = nullptr;
    if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!capture->unjoined.empty()) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    *graph = All<Graph>().Add(new Graph{capture->work});
    call.Tell({"nodes", capture->work.size()});
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuGraphInstantiateWithFlags(CUgraphExec* made, CUgraph graph, unsigned long long flags) {
  return Do("cuGraphInstantiateWithFlags", Needs::kContext, {{"flags", flags}}, [&] { return Instantiate(made, graph); });
}

EMULATED_API CUresult cuGraphGetNodes(CUgraph graph, void** nodes, std::size_t* count) {
  return Do("cuGraphGetNodes", Needs::kContext, {}, [&] {
    if (!All<Graph>().Has(graph) || nodes != nullptr) return CUDA_ERROR_INVALID_VALUE;  // their number alone
    *count = graph->work.size();
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuGraphLaunch(CUgraphExec graph, CUstream handle) {
  return Do("cuGraphLaunch", Needs::kContext, {{"stream", static_cast<const void*>(handle)}}, [&] {
    Stream* stream = StreamOf(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (!All<GraphExec>().Has(graph)) return CUDA_ERROR_INVALID_VALUE;
    return Enqueue(stream, RunAll(graph->work));
  });
}

EMULATED_API CUresult cuGraphExecDestroy(CUgraphExec graph) {
  return Do("cuGraphExecDestroy", Needs::kContext, {}, [&] {
    if (!All<GraphExec>().Remove(graph)) return CUDA_ERROR_INVALID_VALUE;
    delete graph;
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuGraphDestroy(CUgraph graph) {
  return Do("cuGraphDestroy", Needs::kContext, {}, [&] {
    if (!All<Graph>().Remove(graph)) return CUDA_ERROR_INVALID_VALUE;
    delete graph;
    return CUDA_SUCCESS;
  });
}

}  // namespace emulated
