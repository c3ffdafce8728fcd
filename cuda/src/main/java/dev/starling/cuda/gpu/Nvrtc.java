package dev.starling.cuda.gpu;

import static org.bytedeco.cuda.global.nvrtc.NVRTC_SUCCESS;
import static org.bytedeco.cuda.global.nvrtc.nvrtcCompileProgram;
import static org.bytedeco.cuda.global.nvrtc.nvrtcCreateProgram;
import static org.bytedeco.cuda.global.nvrtc.nvrtcDestroyProgram;
import static org.bytedeco.cuda.global.nvrtc.nvrtcGetCUBIN;
import static org.bytedeco.cuda.global.nvrtc.nvrtcGetCUBINSize;
import static org.bytedeco.cuda.global.nvrtc.nvrtcGetErrorString;
import static org.bytedeco.cuda.global.nvrtc.nvrtcGetProgramLog;
import static org.bytedeco.cuda.global.nvrtc.nvrtcGetProgramLogSize;
import static org.bytedeco.cuda.global.nvrtc.nvrtcVersion;

import java.util.List;
import org.bytedeco.cuda.nvrtc._nvrtcProgram;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.PointerPointer;
import org.bytedeco.javacpp.SizeTPointer;

/** NVIDIA's run-time compiler: CUDA C++ to machine code of one architecture. It needs no GPU. */
public final class Nvrtc implements Compiler {
    private static final List<String> OPTIONS = List.of("--std=c++17", "--device-as-default-execution-space",
            "--generate-line-info");

    private final String version;

    /** Loads the compiler's library; throws a {@link LinkageError} where there is none. */
    public Nvrtc() {
        int[] major = new int[1];
        int[] minor = new int[1];
        check(nvrtcVersion(major, minor), "nvrtcVersion");
        version = "nvrtc " + major[0] + "." + minor[0] + " " + String.join(" ", OPTIONS);
    }

    @Override
    public String version() {
        return version;
    }

    @Override
    public byte[] compile(String name, String source, String architecture) {
        _nvrtcProgram program = new _nvrtcProgram();
        try (BytePointer text = new BytePointer(source); BytePointer title = new BytePointer(name)) {
            check(nvrtcCreateProgram(program, text, title, 0, (PointerPointer<?>) null, (PointerPointer<?>) null),
                    "nvrtcCreateProgram");
            String[] options = OPTIONS.toArray(new String[OPTIONS.size() + 1]);
            options[OPTIONS.size()] = "--gpu-architecture=" + architecture;
            int error;
            try (PointerPointer<BytePointer> list = new PointerPointer<>(options)) {
                error = nvrtcCompileProgram(program, options.length, list);
            }
            if (error != NVRTC_SUCCESS) {
                throw new GpuException("kernel " + name + " does not compile for " + architecture + " with " + version
                        + ":\n" + log(program));
            }
            return cubin(program);
        } finally {
            nvrtcDestroyProgram(program);
        }
    }

    private static byte[] cubin(_nvrtcProgram program) {
        try (SizeTPointer size = new SizeTPointer(1)) {
            check(nvrtcGetCUBINSize(program, size), "nvrtcGetCUBINSize");
            byte[] cubin = new byte[Math.toIntExact(size.get())];
            check(nvrtcGetCUBIN(program, cubin), "nvrtcGetCUBIN");
            return cubin;
        }
    }

    private static String log(_nvrtcProgram program) {
        try (SizeTPointer size = new SizeTPointer(1)) {
            check(nvrtcGetProgramLogSize(program, size), "nvrtcGetProgramLogSize");
            byte[] log = new byte[Math.toIntExact(size.get())];
            check(nvrtcGetProgramLog(program, log), "nvrtcGetProgramLog");
            return new String(log, 0, Math.max(0, log.length - 1), java.nio.charset.StandardCharsets.UTF_8);
        }
    }

    private static void check(int error, String call) {
        if (error != NVRTC_SUCCESS) {
            throw new GpuException(call + ": " + nvrtcGetErrorString(error).getString());
        }
    }
}
