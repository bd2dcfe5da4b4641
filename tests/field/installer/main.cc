// The installer without TVM: edge-rt's verbs of the field, with the seams of seam.cc and network.cc.
#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "edge_rt.h"
#include "failure.h"
#include "field/commands.h"
#include "text.h"

int main(int argc, char** argv) {
  using namespace edge::field;
  const std::map<std::string, std::function<int(const edge::Options&)>> verbs = {
      {"install", InstallCommand},   {"trust", TrustCommand}, {"status", StatusCommand},
      {"rollback", RollBackCommand}, {"prune", PruneCommand}, {"recover", RecoverCommand}};
  try {
    const auto verb = verbs.find(argc < 2 ? "" : argv[1]);
    if (verb == verbs.end()) throw edge::Usage("no such verb");
    return verb->second(edge::Options(argc - 2, argv + 2, {"field", "state", "silence", "app", "leave", "first!"}));
  } catch (const edge::Failure& failure) {
    std::printf("{\"error\": {\"kind\": %s, \"message\": %s%s}}\n", edge::Quote(failure.kind).c_str(),
                edge::Quote(failure.what()).c_str(), failure.members.c_str());
    return failure.code;
  }
}
