package dev.starling.cuda.gpu;

import static org.bytedeco.cuda.global.cudart.CUDA_ERROR_NOT_READY;
import static org.bytedeco.cuda.global.cudart.CUDA_ERROR_OUT_OF_MEMORY;
import static org.bytedeco.cuda.global.cudart.CUDA_SUCCESS;
import static org.bytedeco.cuda.global.cudart.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
import static org.bytedeco.cuda.global.cudart.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
import static org.bytedeco.cuda.global.cudart.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
import static org.bytedeco.cuda.global.cudart.CU_EVENT_DISABLE_TIMING;
import static org.bytedeco.cuda.global.cudart.CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT;
import static org.bytedeco.cuda.global.cudart.CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT;
import static org.bytedeco.cuda.global.cudart.CU_LAUNCH_PARAM_END_AS_INT;
import static org.bytedeco.cuda.global.cudart.CU_MEMHOSTALLOC_DEVICEMAP;
import static org.bytedeco.cuda.global.cudart.CU_MEMHOSTALLOC_PORTABLE;
import static org.bytedeco.cuda.global.cudart.CU_MEMHOSTREGISTER_PORTABLE;
import static org.bytedeco.cuda.global.cudart.CU_STREAM_CAPTURE_MODE_RELAXED;
import static org.bytedeco.cuda.global.cudart.CU_STREAM_NON_BLOCKING;
import static org.bytedeco.cuda.global.cudart.cuCtxSetCurrent;
import static org.bytedeco.cuda.global.cudart.cuDeviceGet;
import static org.bytedeco.cuda.global.cudart.cuDeviceGetAttribute;
import static org.bytedeco.cuda.global.cudart.cuDeviceGetCount;
import static org.bytedeco.cuda.global.cudart.cuDeviceGetName;
import static org.bytedeco.cuda.global.cudart.cuDeviceGetPCIBusId;
import static org.bytedeco.cuda.global.cudart.cuDevicePrimaryCtxRetain;
import static org.bytedeco.cuda.global.cudart.cuDeviceTotalMem;
import static org.bytedeco.cuda.global.cudart.cuDriverGetVersion;
import static org.bytedeco.cuda.global.cudart.cuEventCreate;
import static org.bytedeco.cuda.global.cudart.cuEventDestroy;
import static org.bytedeco.cuda.global.cudart.cuEventQuery;
import static org.bytedeco.cuda.global.cudart.cuEventRecord;
import static org.bytedeco.cuda.global.cudart.cuEventSynchronize;
import static org.bytedeco.cuda.global.cudart.cuFuncLoad;
import static org.bytedeco.cuda.global.cudart.cuGetErrorString;
import static org.bytedeco.cuda.global.cudart.cuInit;
import static org.bytedeco.cuda.global.cudart.cuLaunchKernel;
import static org.bytedeco.cuda.global.cudart.cuMemAlloc;
import static org.bytedeco.cuda.global.cudart.cuMemFree;
import static org.bytedeco.cuda.global.cudart.cuMemFreeHost;
import static org.bytedeco.cuda.global.cudart.cuMemGetInfo;
import static org.bytedeco.cuda.global.cudart.cuMemHostAlloc;
import static org.bytedeco.cuda.global.cudart.cuMemHostRegister;
import static org.bytedeco.cuda.global.cudart.cuMemHostUnregister;
import static org.bytedeco.cuda.global.cudart.cuMemcpyDtoDAsync;
import static org.bytedeco.cuda.global.cudart.cuMemcpyDtoHAsync;
import static org.bytedeco.cuda.global.cudart.cuMemcpyHtoDAsync;
import static org.bytedeco.cuda.global.cudart.cuMemsetD8Async;
import static org.bytedeco.cuda.global.cudart.cuModuleGetFunction;
import static org.bytedeco.cuda.global.cudart.cuModuleLoadData;
import static org.bytedeco.cuda.global.cudart.cuStreamBeginCapture;
import static org.bytedeco.cuda.global.cudart.cuStreamCreate;
import static org.bytedeco.cuda.global.cudart.cuStreamEndCapture;
import static org.bytedeco.cuda.global.cudart.cuStreamSynchronize;
import static org.bytedeco.cuda.global.cudart.cuStreamWaitEvent;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.util.Objects;
import java.util.function.IntSupplier;
import org.bytedeco.cuda.cudart.CUctx_st;
import org.bytedeco.cuda.cudart.CUevent_st;
import org.bytedeco.cuda.cudart.CUfunc_st;
import org.bytedeco.cuda.cudart.CUgraph_st;
import org.bytedeco.cuda.cudart.CUmod_st;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerPointer;
import org.bytedeco.javacpp.SizeTPointer;
import org.jspecify.annotations.Nullable;

/** A GPU through NVIDIA's driver, in the primary context, which the process's CUDA libraries share. */
public final class NvidiaGpu implements Gpu {
    static final ThreadLocal<LaunchBuffer> BUFFER = ThreadLocal.withInitial(LaunchBuffer::new);

    private final int device;
    private final CUctx_st context = new CUctx_st();
    private final String name;
    private final String architecture;
    private final int processors;
    private final Compiler compiler;
    private volatile Runnable trim = () -> { };
    /** The graph being captured. Only the capturing thread uses the stream meanwhile. */
    private volatile @Nullable NvidiaGraph capturing;

    private record NvidiaStream(CUstream_st stream) implements Stream {
        @Override
        public long address() {
            return stream.address();
        }
    }

    private record NvidiaEvent(CUevent_st event) implements Event { }

    private record NvidiaImage(NvidiaGpu gpu, CUmod_st module) implements Image {
        @Override
        public Function function(String name) {
            CUfunc_st function = new CUfunc_st();
            gpu.request(() -> cuModuleGetFunction(function, module, name), "cuModuleGetFunction of " + name);
            // A lazily loading driver would load the kernel at its first launch, which could then run out of memory.
            gpu.request(() -> cuFuncLoad(function), "cuFuncLoad of " + name);
            return new NvidiaFunction(function);
        }
    }

    private record NvidiaFunction(CUfunc_st function) implements Function { }

    /** The list {@code {BUFFER_POINTER, arguments, BUFFER_SIZE, &size, END}} that a launch needs, one per thread. */
    static final class LaunchBuffer {
        private final MemorySegment list = Arena.ofAuto().allocate(48, 16);
        private final PointerPointer<Pointer> pointer = new PointerPointer<>(RawPointer.of(list));

        LaunchBuffer() {
            list.set(ValueLayout.JAVA_LONG, 0, CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT);
            list.set(ValueLayout.JAVA_LONG, 16, CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT);
            list.set(ValueLayout.JAVA_LONG, 24, list.address() + 40);
            list.set(ValueLayout.JAVA_LONG, 32, CU_LAUNCH_PARAM_END_AS_INT);
        }

        PointerPointer<Pointer> of(long arguments, int bytes) {
            list.set(ValueLayout.JAVA_LONG, 8, arguments);
            list.set(ValueLayout.JAVA_LONG, 40, bytes);
            return pointer;
        }
    }

    /** Opens the device with the given index. */
    public NvidiaGpu(int index) {
        this(index, new Nvrtc());
    }

    /** Opens the device with the given index, with kernels compiled by {@code compiler}. */
    public NvidiaGpu(int index, Compiler compiler) {
        this.compiler = compiler;
        check(cuInit(0), "cuInit");
        int[] result = new int[1];
        check(cuDeviceGet(result, index), "cuDeviceGet");
        device = result[0];
        check(cuDevicePrimaryCtxRetain(context, device), "cuDevicePrimaryCtxRetain");
        name = name(device);
        architecture = "sm_" + attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)
                + attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
        processors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    }

    /** Returns the number of devices that the driver offers. */
    public static int count() {
        check(cuInit(0), "cuInit");
        int[] count = new int[1];
        check(cuDeviceGetCount(count), "cuDeviceGetCount");
        return count[0];
    }

    /** Returns the newest CUDA version that the driver supports, as 1000·major + 10·minor. */
    public static int driverVersion() {
        int[] version = new int[1];
        check(cuDriverGetVersion(version), "cuDriverGetVersion");
        return version[0];
    }

    /** Returns the compute capability of a device, as 10·major + minor. */
    public static int capability(int index) {
        int[] result = new int[1];
        check(cuDeviceGet(result, index), "cuDeviceGet");
        return 10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, result[0])
                + attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, result[0]);
    }

    /** Returns a description of a device: name, memory and compute capability. */
    public static String describe(int index) {
        int[] result = new int[1];
        check(cuDeviceGet(result, index), "cuDeviceGet");
        try (Arena arena = Arena.ofConfined()) {
            SizeTPointer bytes = number(arena);
            check(cuDeviceTotalMem(bytes, result[0]), "cuDeviceTotalMem");
            return name(result[0]) + ", " + (bytes.get() >> 30) + " GiB, compute capability "
                    + attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, result[0]) + "."
                    + attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, result[0]);
        }
    }

    /** Returns memory for a number, outside JavaCPP's accounting. */
    private static SizeTPointer number(Arena arena) {
        return new SizeTPointer(RawPointer.of(arena.allocate(ValueLayout.JAVA_LONG)));
    }

    private static String name(int device) {
        byte[] name = new byte[256];
        check(cuDeviceGetName(name, name.length, device), "cuDeviceGetName");
        return text(name);
    }

    /** Returns a zero-terminated text that the driver wrote. */
    private static String text(byte[] bytes) {
        int end = 0;
        while (bytes[end] != 0) {
            end++;
        }
        return new String(bytes, 0, end, StandardCharsets.US_ASCII);
    }

    private static int attribute(int attribute, int device) {
        int[] value = new int[1];
        check(cuDeviceGetAttribute(value, attribute, device), "cuDeviceGetAttribute");
        return value[0];
    }

    /**
     * Called before every driver call: the current context belongs to the operating system's thread, and a virtual
     * thread may run on another one after each time it blocks. In this class nothing that blocks comes between this
     * call and the driver's.
     */
    @Override
    public void enter() {
        check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    }

    /** Makes a call that needs memory; if it runs out of memory, frees cached memory and retries once. */
    void request(IntSupplier call, String name) {
        enter();
        int error = call.getAsInt();
        if (error == CUDA_ERROR_OUT_OF_MEMORY) {
            trim.run();
            enter();
            error = call.getAsInt();
        }
        check(error, name);
    }

    static void check(int error, String call) {
        if (error != CUDA_SUCCESS) {
            throw failure(error, call);
        }
    }

    private static GpuException failure(int error, String call) {
        try (Arena arena = Arena.ofConfined()) {
            PointerPointer<BytePointer> text = new PointerPointer<>(number(arena));
            String description = cuGetErrorString(error, text) == CUDA_SUCCESS
                    ? text.get(BytePointer.class, 0).getString() : "unknown";
            String message = call + ": error " + error + ", " + description;
            return error == CUDA_ERROR_OUT_OF_MEMORY ? GpuException.exhausted(message) : new GpuException(message);
        }
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public String identity() {
        byte[] text = new byte[32];
        check(cuDeviceGetPCIBusId(text, text.length, device), "cuDeviceGetPCIBusId");
        return text(text);
    }

    @Override
    public String architecture() {
        return architecture;
    }

    @Override
    public int processors() {
        return processors;
    }

    @Override
    public Compiler compiler() {
        return compiler;
    }

    @Override
    public long allocate(long bytes) {
        enter();
        long[] address = new long[1];
        int error = cuMemAlloc(address, bytes);
        if (error == CUDA_ERROR_OUT_OF_MEMORY) {
            return 0;
        }
        check(error, "cuMemAlloc of " + bytes + " bytes");
        return address[0];
    }

    @Override
    public void free(long address) {
        enter();
        check(cuMemFree(address), "cuMemFree");
    }

    @Override
    public void onShortage(Runnable newTrim) {
        trim = newTrim;
    }

    @Override
    public void trim() {
        trim.run();
    }

    @Override
    public long freeBytes() {
        enter();
        try (Arena arena = Arena.ofConfined()) {
            SizeTPointer free = number(arena);
            check(cuMemGetInfo(free, number(arena)), "cuMemGetInfo");
            return free.get();
        }
    }

    @Override
    public long allocatePinned(long bytes) {
        try (Arena arena = Arena.ofConfined()) {
            PointerPointer<Pointer> address = new PointerPointer<>(number(arena));
            request(() -> cuMemHostAlloc(address, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                    "cuMemHostAlloc of " + bytes + " bytes");
            return address.get(0).address();
        }
    }

    @Override
    public void freePinned(long address) {
        enter();
        check(cuMemFreeHost(RawPointer.of(address)), "cuMemFreeHost");
    }

    @Override
    public void pin(long address, long bytes) {
        request(() -> cuMemHostRegister(RawPointer.of(address), bytes, CU_MEMHOSTREGISTER_PORTABLE),
                "cuMemHostRegister of " + bytes + " bytes");
    }

    @Override
    public void unpin(long address) {
        enter();
        check(cuMemHostUnregister(RawPointer.of(address)), "cuMemHostUnregister");
    }

    @Override
    public Stream stream() {
        CUstream_st stream = new CUstream_st();
        request(() -> cuStreamCreate(stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
        return new NvidiaStream(stream);
    }

    @Override
    public Event event() {
        CUevent_st event = new CUevent_st();
        request(() -> cuEventCreate(event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
        return new NvidiaEvent(event);
    }

    @Override
    public void closeEvent(Event event) {
        enter();
        check(cuEventDestroy(of(event)), "cuEventDestroy");
    }

    @Override
    public void record(Event event, Stream stream) {
        enter();
        check(cuEventRecord(of(event), of(stream)), "cuEventRecord");
    }

    @Override
    public boolean isDone(Event event) {
        enter();
        int state = cuEventQuery(of(event));
        if (state == CUDA_ERROR_NOT_READY) {
            return false;
        }
        check(state, "cuEventQuery");
        return true;
    }

    @Override
    public void await(Event event) {
        enter();
        check(cuEventSynchronize(of(event)), "cuEventSynchronize");
    }

    @Override
    public void await(Event event, Stream stream) {
        enter();
        check(cuStreamWaitEvent(of(stream), of(event), 0), "cuStreamWaitEvent");
    }

    @Override
    public void synchronize(Stream stream) {
        enter();
        check(cuStreamSynchronize(of(stream)), "cuStreamSynchronize");
    }

    @Override
    public void upload(long host, long device, long bytes, Stream stream) {
        enter();
        check(cuMemcpyHtoDAsync(device, RawPointer.of(host), bytes, of(stream)), "cuMemcpyHtoDAsync");
    }

    @Override
    public void download(long device, long host, long bytes, Stream stream) {
        enter();
        check(cuMemcpyDtoHAsync(RawPointer.of(host), device, bytes, of(stream)), "cuMemcpyDtoHAsync");
    }

    @Override
    public void copy(long from, long to, long bytes, Stream stream) {
        enter();
        check(cuMemcpyDtoDAsync(to, from, bytes, of(stream)), "cuMemcpyDtoDAsync");
    }

    @Override
    public void fill(long address, byte value, long bytes, Stream stream) {
        enter();
        check(cuMemsetD8Async(address, value, bytes, of(stream)), "cuMemsetD8Async");
    }

    @Override
    public Image load(byte[] program) {
        CUmod_st module = new CUmod_st();
        try (Arena arena = Arena.ofConfined()) {
            Pointer bytes = RawPointer.of(arena.allocateFrom(ValueLayout.JAVA_BYTE, program));
            request(() -> cuModuleLoadData(module, bytes), "cuModuleLoadData");
        }
        return new NvidiaImage(this, module);
    }

    @Override
    public void launch(Function function, Grid grid, Stream stream, long arguments, int bytes) {
        enter();
        NvidiaFunction f = (NvidiaFunction) function;
        PointerPointer<Pointer> extra = BUFFER.get().of(arguments, bytes);
        int error = launch(f.function, grid, of(stream), extra);
        if (error == CUDA_ERROR_OUT_OF_MEMORY) {
            trim.run();
            enter();
            error = launch(f.function, grid, of(stream), extra);
        }
        check(error, "cuLaunchKernel");
        NvidiaGraph graph = capturing;
        if (graph != null && graph.isOf(stream)) {
            graph.add(f.function, grid, of(stream));
        }
    }

    private static int launch(CUfunc_st function, Grid grid, CUstream_st stream, PointerPointer<Pointer> extra) {
        return cuLaunchKernel(function, grid.x(), grid.y(), grid.z(), grid.threads(), 1, 1, 0, stream,
                null, extra);
    }

    @Override
    public void beginCapture(Stream stream) {
        enter();
        // Relaxed mode: calls of other threads, and memory that a library allocates, do not break the capture.
        check(cuStreamBeginCapture(of(stream), CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture");
        capturing = new NvidiaGraph(this, stream);
    }

    @Override
    public Graph endCapture(Stream stream) {
        enter();
        NvidiaGraph graph = Objects.requireNonNull(capturing);
        capturing = null;
        CUgraph_st captured = new CUgraph_st();
        check(cuStreamEndCapture(of(stream), captured), "cuStreamEndCapture");
        graph.instantiate(captured);
        return graph;
    }

    /** Returns a stream of any kind of device in the type that the bindings of NVIDIA's libraries accept. */
    public static CUstream_st handle(Stream stream) {
        return new CUstream_st(RawPointer.of(stream.address()));
    }

    static CUstream_st of(Stream stream) {
        return ((NvidiaStream) stream).stream;
    }

    private static CUevent_st of(Event event) {
        return ((NvidiaEvent) event).event;
    }
}
