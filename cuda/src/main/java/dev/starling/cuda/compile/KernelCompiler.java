package dev.starling.cuda.compile;

import dev.starling.cuda.gpu.Compiler;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Compiles kernels for one architecture, each source once per machine: a file named by a hash of everything that the
 * program depends on keeps the result. Safe for use by several threads.
 */
public final class KernelCompiler {
    private final Compiler compiler;
    private final String architecture;
    private final ProgramCache cache;
    private final Map<String, KernelSource> sources = new ConcurrentHashMap<>();

    /** Makes a compiler that caches programs in the user's cache folder. */
    public KernelCompiler(Compiler compiler, String architecture) {
        this(compiler, architecture, ProgramCache.home());
    }

    /** Makes a compiler that caches programs in {@code folder}. */
    public KernelCompiler(Compiler compiler, String architecture, Path folder) {
        this.compiler = compiler;
        this.architecture = architecture;
        this.cache = new ProgramCache(folder);
    }

    /**
     * Returns the compiled program of a source, from the cache if it is there.
     *
     * @throws dev.starling.cuda.gpu.GpuException if the source does not compile, with the compiler's log
     */
    public byte[] compile(KernelSource source) {
        sources.putIfAbsent(source.text(), source);
        String key = key(source.text());
        byte[] program = cache.find(key);
        if (program == null) {
            program = compiler.compile(source.name(), source.text(), architecture);
            cache.keep(key, program);
        }
        return program;
    }

    /** Returns the sources that were requested so far. */
    public Iterable<KernelSource> sources() {
        return sources.values();
    }

    private String key(String text) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            for (String part : new String[] {architecture, compiler.version(), text}) {
                digest.update(part.getBytes(StandardCharsets.UTF_8));
                digest.update((byte) 0);
            }
            return HexFormat.of().formatHex(digest.digest());
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError("every Java platform has SHA-256", e);
        }
    }
}
