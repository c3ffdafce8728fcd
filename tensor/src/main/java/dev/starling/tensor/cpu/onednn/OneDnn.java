package dev.starling.tensor.cpu.onednn;

import dev.starling.errors.ThreadException;
import java.io.File;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.lang.module.ModuleFinder;
import java.lang.module.ModuleReader;
import java.lang.module.ModuleReference;
import java.lang.module.ResolvedModule;
import java.net.URL;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileLockInterruptionException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.bytedeco.javacpp.Loader;
import org.jspecify.annotations.Nullable;

/**
 * Availability of oneDNN in this process. The first query looks for the library; nothing is downloaded. The library is
 * extracted from the {@code org.bytedeco:dnnl} jar of this platform into JavaCPP's cache directory.
 */
public final class OneDnn {
    private static final String INSTALL = "add org.bytedeco:javacpp and org.bytedeco:dnnl with the classifier of this "
        + "platform (linux-x86_64, windows-x86_64, macosx-arm64, …), and let the process write to the directory that "
        + "the system property org.bytedeco.javacpp.cachedir names (~/.javacpp/cache by default), on a file system "
        + "without noexec";
    private static final Library LIBRARY = new Library(() -> NewThread.run("onednn-load", OneDnn::load), 1_000_000_000);

    private OneDnn() { }

    /** Returns whether the library was loaded. */
    public static boolean available() {
        return LIBRARY.lookup() != null;
    }

    /** Returns one line: version and instruction set if the library is available, else the reason why it is not. */
    public static String description() {
        return available() ? "oneDNN " + Dnnl.version() + ", " + isa() : LIBRARY.reason;
    }

    /** Returns how to make a missing library available. */
    public static String remedy() {
        return LIBRARY.known ? INSTALL : "permit the thread that loads it; the next use tries again";
    }

    /** Returns whether the processor has instructions for matrix products and convolutions of {@code type}. */
    public static boolean supports(ElementType type) {
        if (!available()) {
            return false;
        }
        int isa = Dnnl.ISA;
        return switch (type) {
            case F32 -> true;
            case BF16 -> has(isa, Isa.AVX512_BF16);
            case F16 -> has(isa, Isa.AVX512_FP16);
            case S8, U8 -> has(isa, Isa.AVX512);
            case S32 -> false;
        };
    }

    /**
     * Returns whether products of 16-bit elements with an odd number of summands are right. oneDNN 3.11 with AMX made a
     * result NaN, seen for bf16, where the element behind its row of the left operand was not finite.
     */
    public static boolean sumsOddNumbers(ElementType type) {
        return type.bytes() != 2 || !has(Isa.AMX);
    }

    /** Returns the name of the instruction set that oneDNN uses. */
    private static String isa() {
        int isa = Dnnl.ISA;
        Isa best = Isa.SSE41;
        for (Isa candidate : Isa.values()) {
            if (has(isa, candidate)) {
                best = candidate;
            }
        }
        return best.toString();
    }

    /** Returns whether oneDNN uses at least this instruction set. */
    static boolean has(Isa wanted) {
        return available() && has(Dnnl.ISA, wanted);
    }

    private static boolean has(int isa, Isa wanted) {
        return (isa & wanted.bits) == wanted.bits;
    }

    static SymbolLookup symbols() {
        return Objects.requireNonNull(LIBRARY.lookup(), LIBRARY.reason);
    }

    /**
     * Extracts a resource into JavaCPP's cache directory. The file lock that JavaCPP takes for it fails in an
     * interrupted thread, and the library would then be missing for the life of the process: an interrupt is kept for
     * later.
     */
    static File extracted(URL resource) throws IOException {
        boolean interrupted = Thread.interrupted();
        try {
            while (true) {
                try {
                    return Loader.cacheResource(resource);
                } catch (ClosedByInterruptException | FileLockInterruptionException e) {
                    interrupted |= Thread.interrupted();
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Bits of {@code dnnl_cpu_isa_t}; each set includes the bits of the sets that it extends. */
    enum Isa {
        SSE41(0x1, "SSE4.1"), AVX(0x3, "AVX"), AVX2(0x7, "AVX2"), AVX512(0x27, "AVX-512"),
        AVX512_VNNI(0x67, "AVX-512 with VNNI"), AVX512_BF16(0xe7, "AVX-512 with bf16"),
        AVX512_FP16(0x1ef, "AVX-512 with fp16"), AMX(0xfef, "AMX");

        private final int bits;
        private final String title;

        Isa(int bits, String title) {
            this.bits = bits;
            this.title = title;
        }

        @Override
        public String toString() {
            return title;
        }
    }

    /**
     * Loads the OpenMP runtime first, so that oneDNN finds it by name. An initialiser of oneDNN's library needs more
     * than 512 KiB of stack; in a thread with less, for example with {@code -Xss512k}, it ends the process.
     */
    private static SymbolLookup load() throws Exception {
        String platform = Loader.getPlatform();
        List<String> names = switch (platform.substring(0, platform.indexOf('-'))) {
            case "linux" -> List.of("libgomp.so.1", "libdnnl.so.3");
            case "macosx" -> List.of("libomp.dylib", "libdnnl.3.dylib");
            case "windows" -> List.of("libiomp5md.dll", "dnnl.dll");
            default -> throw new UnsatisfiedLinkError("there is no oneDNN for " + platform);
        };
        Class<?> preset = Class.forName("org.bytedeco.dnnl.presets.dnnl", false, OneDnn.class.getClassLoader());
        SymbolLookup both = null;
        for (String name : names) {
            String path = "org/bytedeco/dnnl/" + platform + "/" + name;
            URL resource = Loader.findResource(preset, "/" + path);
            File file = extracted(resource != null ? resource : inModule("org.bytedeco.dnnl."
                + platform.replace('-', '.'), path));
            SymbolLookup one = SymbolLookup.libraryLookup(file.toPath(), Arena.global());
            both = both == null ? one : one.or(both);
        }
        return Objects.requireNonNull(both);
    }

    /**
     * Looks in a module that need not be resolved, since no module requires the one that contains the library: in this
     * class's layer, on the module path, and in the runtime image.
     */
    static URL inModule(String module, String path) throws IOException {
        ModuleLayer layer = OneDnn.class.getModule().getLayer();
        Path[] places = Arrays.stream(System.getProperty("jdk.module.path", "").split(File.pathSeparator))
            .filter(place -> !place.isEmpty()).map(Path::of).toArray(Path[]::new);
        Optional<ModuleReference> found = Optional.ofNullable(layer)
            .flatMap(here -> here.configuration().findModule(module)).map(ResolvedModule::reference)
            .or(() -> ModuleFinder.compose(ModuleFinder.of(places), ModuleFinder.ofSystem()).find(module));
        if (found.isEmpty()) {
            throw new UnsatisfiedLinkError(path + " is on neither the class path nor the module path, nor in the "
                + "runtime image; a module layer of an application's own has to resolve " + module);
        }
        try (ModuleReader reader = found.get().open()) {
            return reader.find(path).orElseThrow(() -> new UnsatisfiedLinkError(path + " is not in " + module))
                .toURL();
        }
    }

    /**
     * The library, which is looked for at its first use, and again at later ones while the system refuses the thread
     * that loads it.
     */
    static final class Library {
        private final Callable<SymbolLookup> loader;
        private final long pauseNs;
        private volatile @Nullable SymbolLookup lookup;
        /** Why it is missing; empty if it is not. */
        private volatile String reason = "";
        private volatile boolean known;
        private long lastTryNs;

        /** Makes a library that has not been looked for; {@code pauseNs} is the time from one try to the next. */
        Library(Callable<SymbolLookup> loader, long pauseNs) {
            this.loader = loader;
            this.pauseNs = pauseNs;
        }

        @Nullable SymbolLookup lookup() {
            if (!known) {
                look();
            }
            return lookup;
        }

        private synchronized void look() {
            if (known || !reason.isEmpty() && System.nanoTime() - lastTryNs < pauseNs) {
                return;
            }
            try {
                lookup = loader.call();
                reason = "";
                known = true;
            } catch (ThreadException e) {
                lastTryNs = System.nanoTime();
                warn(e, "");
            } catch (Exception e) {
                warn(e instanceof ExecutionException ? e.getCause() : e, ". Remedy: " + INSTALL);
                known = true;
            }
        }

        private void warn(@Nullable Throwable cause, String remedy) {
            reason = "cannot load oneDNN: " + cause;
            System.getLogger(OneDnn.class.getName()).log(System.Logger.Level.WARNING,
                reason + "; matrix products and convolutions will be slow" + remedy);
        }
    }
}
