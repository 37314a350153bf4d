module {
  func.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_1_base_addr: !sdscbundle.input_arg<index>) {
    %arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
    %arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
    %arg_0_offset_256 = arith.constant 256 : index
    %arg_0_addr_256 = arith.addi %arg_0, %arg_0_offset_256 : index
    %arg_0_offset_512 = arith.constant 512 : index
    %arg_0_addr_512 = arith.addi %arg_0, %arg_0_offset_512 : index
    %arg_0_offset_768 = arith.constant 768 : index
    %arg_0_addr_768 = arith.addi %arg_0, %arg_0_offset_768 : index
    %arg_1_offset_256 = arith.constant 256 : index
    %arg_1_addr_256 = arith.addi %arg_1, %arg_1_offset_256 : index
    %arg_1_offset_512 = arith.constant 512 : index
    %arg_1_addr_512 = arith.addi %arg_1, %arg_1_offset_512 : index
    %arg_1_offset_768 = arith.constant 768 : index
    %arg_1_addr_768 = arith.addi %arg_1, %arg_1_offset_768 : index
    sdscbundle.sdsc_execute (%arg_0, %arg_0_addr_256, %arg_0_addr_512, %arg_0_addr_768) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2, -3, -4]}
    sdscbundle.sdsc_execute () {sdsc_filename="sdsc_1.json", "symbol_ids"=[]}
    sdscbundle.sdsc_execute () {sdsc_filename="sdsc_2.json", "symbol_ids"=[]}
    sdscbundle.sdsc_execute () {sdsc_filename="sdsc_3.json", "symbol_ids"=[]}
    sdscbundle.sdsc_execute () {sdsc_filename="sdsc_4.json", "symbol_ids"=[]}
    sdscbundle.sdsc_execute (%arg_1, %arg_1_addr_256, %arg_1_addr_512, %arg_1_addr_768) {sdsc_filename="sdsc_5.json", "symbol_ids"=[-5, -6, -7, -8]}
    return
  }
}
