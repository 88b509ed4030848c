#!/usr/bin/python3
"""hmcinfo devices on fake drivers: devices, ways of sharing between two processes that pass, and reasons of failures.

Usage: hmcinfo_devices_test.py HMCINFO FOLDER_OF_FAKES
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HMCINFO, FAKES = sys.argv[1:3]


def devices(*args, **env):
    fakes = {f"HMC_{name.upper()}_LIBRARY": f"{FAKES}/libfake_{name}.so" for name in ("cuda", "hip")}
    off = {f"HMC_{name}_LIBRARY": "none" for name in ("MUSA", "CNRT", "ACL", "OPENCL")}
    # AMD's compiler, if installed, has an LLVM that can't share a process with PoCL's.
    off["HMC_HIPRTC_LIBRARY"] = f"{FAKES}/libfake_hiprtc.so"
    done = subprocess.run([HMCINFO, "devices", *args], env={**os.environ, **fakes, **off, **env}, timeout=100,
                          capture_output=True, text=True, check=True)
    return done.stdout


def providers(**env):
    return {each["name"]: each for each in json.loads(devices("--json", **env))["providers"]}


def ways(provider):
    return {each["kind"]: each for each in provider["sharing"]}


class Devices(unittest.TestCase):
    def test_names_library_version_and_devices(self):
        cuda = providers()["cuda"]
        self.assertEqual(cuda["library"], {"path": f"{FAKES}/libfake_cuda.so", "version": "CUDA 13.0"})
        self.assertEqual([each["index"] for each in cuda["devices"]], [0, 1])

    def test_sharing_passes_between_two_processes(self):
        for name in ("cuda", "hip"):
            for kind, way in ways(providers(FAKE_FABRIC="1")[name]).items():
                if (name, kind) == ("hip", "fabric handle"):
                    self.assertIn("fabric", way["why"])
                    continue
                self.assertTrue(way["passed"], (name, kind, way))
                self.assertGreater(way["gigabytes_per_s"], 0)

    def test_the_older_import_convention_of_hip_passes_too(self):
        self.assertTrue(ways(providers(FAKE_HIP_VERSION="70000000")["hip"])["vmm fd"]["passed"])

    def test_a_failed_trial_names_the_call_and_its_result(self):
        way = ways(providers(FAKE_FAIL="cuMemMap:1:2")["cuda"])["vmm fd"]
        self.assertFalse(way["passed"])
        self.assertEqual(way["why"], "cuMemMap answered CUDA_ERROR_OUT_OF_MEMORY (2)")

    def test_a_failure_in_the_other_process_is_reported(self):
        way = ways(providers(FAKE_FAIL="cuIpcOpenMemHandle_v2:1")["cuda"])["ipc handle"]
        self.assertFalse(way["passed"])
        self.assertIn("cuIpcOpenMemHandle_v2", way["why"])

    def test_an_absent_library_is_a_reason(self):
        found = providers(HMC_CUDA_LIBRARY="/nowhere.so")
        self.assertFalse(found["cuda"]["available"])
        self.assertIn("HMC_CUDA_LIBRARY", found["cuda"]["why"])
        self.assertIn("turned off", found["musa"]["why"])

    def test_hip_is_hygons_library_if_installed(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(f"{FAKES}/libfake_hip.so", f"{folder}/libgalaxyhip.so.5")
            hip = providers(HMC_HIP_LIBRARY="", LD_LIBRARY_PATH=folder)["hip"]
        self.assertTrue(hip["available"], hip)
        self.assertEqual(hip["library"], {"path": f"{folder}/libgalaxyhip.so.5", "version": "HIP 7.1"})

    def test_default_memory_is_that_of_the_first_vendor_with_a_device(self):
        order = {"cuda": "NVIDIA_GPU", "hip": "AMD_GPU", "musa": "MOORE_GPU", "cnrt": "CAMBRICON_MLU",
                 "acl": "ASCEND_NPU"}
        present = {f"HMC_{name.upper()}_LIBRARY": f"{FAKES}/libfake_{name}.so" for name in order}
        # PoCL, if installed: a CPU that reports itself as a device.
        present["HMC_OPENCL_LIBRARY"] = "libOpenCL.so.1"
        for name, kind in order.items():
            self.assertEqual(json.loads(devices("--json", **present))["default"], kind)
            present[f"HMC_{name.upper()}_LIBRARY"] = "none"
        self.assertEqual(json.loads(devices("--json", **present))["default"], "CPU")
        self.assertIn("DEFAULT  CPU\n", devices(**present))
        # A library without a device isn't an accelerator.
        self.assertEqual(json.loads(devices("--json", FAKE_DEVICES="0"))["default"], "CPU")

    def test_openmp_is_found_by_name_and_counted(self):
        openmp = json.loads(devices("--json", HMC_OPENMP_LIBRARY=f"{FAKES}/libfake_openmp.so"))["openmp"]
        self.assertEqual((openmp["library"], openmp["devices"]), (f"{FAKES}/libfake_openmp.so", 1))
        off = json.loads(devices("--json", HMC_OPENMP_LIBRARY="none"))["openmp"]
        self.assertIn("turned off", off["why"])

    def test_unavailable_memory_is_reported_with_its_reason(self):
        self.assertIn("memory    vmm: no, cuMemMap answered CUDA_ERROR_OUT_OF_MEMORY (2)",
                      devices(FAKE_FAIL="cuMemMap:1:2"))

    def test_the_text_has_the_same_content(self):
        text = devices()
        self.assertIn("fake CUDA device 1", text)
        self.assertIn("vmm fd: passed between two processes", text)
        self.assertIn("musa     no: turned off by HMC_MUSA_LIBRARY=none", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
