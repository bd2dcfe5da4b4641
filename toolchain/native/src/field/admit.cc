#include "field/admit.h"

#include <algorithm>

#include "edge_rt.h"
#include "failure.h"
#include "text.h"

namespace edge::field {
namespace {

[[noreturn]] void RefuseVersion(const Release& release, const Piece& why, const Version& other) {
  Throw(EDGE_REFUSED, "version", {release.app, " ", release.version.text(), why.text(), other.text()});
}

}  // namespace

void Admit(const Release& release, const Situation& situation) {
  const auto& classes = release.classes;
  if (std::find(classes.begin(), classes.end(), situation.board_class) == classes.end()) {
    std::string names;
    for (const std::string& name : classes) names += (names.empty() ? "" : ", ") + name;
    const std::string here = situation.board_class.empty()
                                 ? std::string("this board does not know its class, which `toolchain board provision` notes")
                                 : Cat({"this is a board of class ", situation.board_class});
    Throw(EDGE_REFUSED, "class", {here, ", and ", release.app, " ", release.version.text(), " is for ", names});
  }
  const auto &installed = situation.installed, &newest = situation.newest;
  // What is installed may be installed again, also after a way back from a newer one: nothing changes.
  if (release.statement == situation.installed_statement) return;
  constexpr const char* kAnother = " is not the release that was here by this version: sign it with one above ";
  if (installed && (release.version <=> *installed) == 0) RefuseVersion(release, kAnother, *installed);
  if (newest && (release.version <=> *newest) == 0 && !situation.newest_statement.empty() &&
      release.statement != situation.newest_statement) {
    RefuseVersion(release, kAnother, *newest);
  }
  if (situation.downgrade) return;
  if (installed && release.version < *installed) RefuseVersion(release, " is older than what is installed: ", *installed);
  if (newest && release.version < *newest) {
    RefuseVersion(release, " is older than the newest version that was here or that the host knows: ", *newest);
  }
}

}  // namespace edge::field
