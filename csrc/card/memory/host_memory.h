// How much memory the host can still give: the machine's, or less where a cgroup (v1 or v2) limits this process.
#pragma once

#include <string>

#include "streams/card.h"

namespace openspyre {

struct HostLimit : HostMemory {
  bool cgroup;  // the binding limit is a cgroup's, not the machine's
};

// `root` is put before /proc and /sys; tests pass a directory with files of their own.
HostLimit read_host_limit(const std::string& root = "");

}  // namespace openspyre
