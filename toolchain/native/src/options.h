// Command-line options: `--name value`, `--name=value`, flags and positional arguments.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace edge {

class Options {
 public:
  // Names without dashes; a name ending in '!' is a flag. Anything else is refused.
  Options(int argc, char** argv, const std::vector<std::string>& names);

  bool Has(const std::string& name) const { return values_.count(name) != 0; }
  std::string Text(const std::string& name, const std::string& fallback) const;
  std::vector<std::string> All(const std::string& name) const;
  // Refuses what is not a number within the bounds.
  int Int(const std::string& name, int fallback, int least, int most) const;
  double Seconds(const std::string& name, double fallback) const;
  // The one positional argument that a command takes.
  const std::string& Only(const std::string& what) const;
  void NoMore() const;
  // The state folder: the option, else from the environment. Made if `make`.
  std::string State(bool make) const;

 private:
  std::map<std::string, std::vector<std::string>> values_;
  std::vector<std::string> rest_;
};

}  // namespace edge
