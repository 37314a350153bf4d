// Letting torch's autograd threads come to rest before Python ends.
#pragma once

#include <c10/core/Device.h>

namespace torch_spyre {

void device_chosen(c10::DeviceIndex index);  // by the calling thread, as autograd's threads do when they start
void let_autograd_rest();                    // without Python's lock

}  // namespace torch_spyre
