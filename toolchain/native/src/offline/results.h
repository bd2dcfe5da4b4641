// The file of results in a folder of candidates: a line for each, on the disk before the next one begins.
#pragma once

#include <set>
#include <string>

#include "offline/plan.h"

namespace edge::offline {

class Results {
 public:
  // Opens or begins the file, and takes off a line that a cut left half written. Throws EDGE_BUSY where another process
  // measures this folder, and EDGE_USAGE where the results are those of another plan.
  explicit Results(const Plan& plan);
  ~Results();
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  // Whether a candidate's result is there already.
  bool Has(const std::string& candidate) const { return done_.count(candidate) != 0; }
  // `line`: as Line returns it.
  void Add(const std::string& candidate, const std::string& line);
  const std::string& path() const { return path_; }

 private:
  void Write(const std::string& line);
  // Returns how many bytes are whole lines.
  size_t ReadLines(const Plan& plan, const std::string& text);

  std::string path_;
  int fd_;
  std::set<std::string> done_;
};

}  // namespace edge::offline
