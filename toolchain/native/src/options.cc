#include "options.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "failure.h"
#include "folder.h"
#include "text.h"

namespace edge {

Options::Options(int argc, char** argv, const std::vector<std::string>& names) {
  for (int i = 0; i < argc; ++i) {
    std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      rest_.push_back(word);
      continue;
    }
    size_t equals = word.find('=');
    std::string name = word.substr(2, equals == word.npos ? word.npos : equals - 2);
    const bool flag = std::count(names.begin(), names.end(), name + "!") != 0;
    if (!flag && std::count(names.begin(), names.end(), name) == 0) {
      std::string known;
      for (const std::string& option : names) known += " --" + option;
      known.erase(std::remove(known.begin(), known.end(), '!'), known.end());
      throw Usage("unknown option --" + name + "; there are" + known);
    }
    if (equals != word.npos && !flag) {
      values_[name].push_back(word.substr(equals + 1));
    } else if (flag && equals == word.npos) {
      values_[name].push_back("");
    } else if (!flag && i + 1 < argc) {
      values_[name].push_back(argv[++i]);
    } else {
      throw Usage("--" + name + (flag ? " takes no value" : " needs a value"));
    }
  }
}

std::string Options::Text(const std::string& name, const std::string& fallback) const {
  auto found = values_.find(name);
  return found == values_.end() ? fallback : found->second.back();
}

std::vector<std::string> Options::All(const std::string& name) const {
  auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

int Options::Int(const std::string& name, int fallback, int least, int most) const {
  if (!Has(name)) return fallback;
  const std::string text = Text(name, "");
  const auto value = WholeNumber(text, static_cast<uint64_t>(most));
  if (!value || static_cast<int>(*value) < least) {
    throw Usage("--" + name + " " + text + ": not a whole number from " + std::to_string(least) +
                " to " + std::to_string(most));
  }
  return static_cast<int>(*value);
}

double Options::Seconds(const std::string& name, double fallback) const {
  if (!Has(name)) return fallback;
  const std::string text = Text(name, "");
  const auto value = DecimalNumber(text);
  if (!value || *value < 0) throw Usage("--" + name + " " + text + ": not a number of seconds");
  return *value;
}

const std::string& Options::Only(const std::string& what) const {
  if (rest_.size() != 1) {
    throw Usage(rest_.empty() ? "no " + what + " given" : "unexpected argument " + rest_[1]);
  }
  return rest_[0];
}

void Options::NoMore() const {
  if (!rest_.empty()) throw Usage("unexpected argument " + rest_[0]);
}

std::string Options::State(bool make) const {
  std::string path = Text("state", "");
  const char* own = std::getenv("EDGE_RT_STATE");
  const char* xdg = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (path.empty() && own != nullptr) path = own;
  if (path.empty() && xdg != nullptr && *xdg == '/') path = std::string(xdg) + "/edge-rt";
  if (path.empty()) path = std::string(home == nullptr ? "" : home) + "/.local/state/edge-rt";
  if (!make) return path;
  return MakeState(path);
}

}  // namespace edge
