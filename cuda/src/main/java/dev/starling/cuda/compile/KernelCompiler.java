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
 * Compiles kernels for one architecture, each source once on a machine: programs are kept in files under a hash of all
 * that they depend on. Safe for use by several threads.
 */
public final class KernelCompiler {
    private final Compiler compiler;
    private final String architecture;
    private final ProgramCache cache;
    private final Map<String, KernelSource> sources = new ConcurrentHashMap<>();

    /** Makes a compiler that keeps its programs in the user's cache. */
    public KernelCompiler(Compiler compiler, String architecture) {
        this(compiler, architecture, ProgramCache.home());
    }

    /** Makes a compiler that keeps its programs in {@code folder}. */
    public KernelCompiler(Compiler compiler, String architecture, Path folder) {
        this.compiler = compiler;
        this.architecture = architecture;
        this.cache = new ProgramCache(folder);
    }

    /**
     * Returns the program of a source.
     *
     * @throws dev.starling.cuda.gpu.GpuException if it does not compile, with what the compiler said
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

    /** Returns the sources that were asked for so far. */
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
