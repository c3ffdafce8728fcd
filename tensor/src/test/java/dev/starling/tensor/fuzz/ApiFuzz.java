package dev.starling.tensor.fuzz;

import dev.starling.tensor.Device;
import dev.starling.tensor.Interceptor;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.Threads;
import java.io.IOException;
import java.lang.module.ModuleDescriptor;
import java.lang.module.ModuleFinder;
import java.lang.reflect.Executable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.net.URI;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;

/**
 * Calls every public constructor and method of a module's exported packages with extreme values. The outcome must be a
 * result or a typed error, never another exception, a crash, a hang or excessive memory.
 */
public final class ApiFuzz implements Fuzz {
    /** More off-heap memory than any case may use. */
    private static final long MAX_BYTES = 256L << 20;

    /** The members that are not called, by name or its beginning, and the reason. */
    private static final Map<String, String> EXCLUDED = Map.ofEntries(
            Map.entry("Tensor.wrap", "wraps memory whose validity the caller guarantees"),
            Map.entry("Storage.", "a hook for backends and the library itself: strides are trusted"),
            Map.entry("Backend.", "a hook for the library itself: addresses are trusted"),
            Map.entry("Allocator.", "a hook for the library itself: blocks are trusted"),
            Map.entry("CachingAllocator.", "a hook for the library itself: blocks are trusted"),
            Map.entry("Block.", "a hook for the library itself: addresses are trusted"),
            Map.entry("MemorySource.", "a hook for the library itself: addresses are trusted"),
            Map.entry("PinnedMemory.", "a hook for the library itself: addresses are trusted"),
            Map.entry("UnpinnedMemory.", "a hook for the library itself: addresses are trusted"),
            Map.entry("Uploader.", "a hook for the library itself: addresses are trusted"),
            Map.entry("Recording.", "a hook for the library itself"),
            Map.entry("DeviceGroup.", "a hook for the library itself"),
            Map.entry("DeviceCollectives.", "a hook for the library itself: addresses are trusted"),
            Map.entry("View.Reshape.view", "a hook for Tensor.apply, which has checked the operand"),
            Map.entry("View.Permute.view", "a hook for Tensor.apply, which has checked the operand"),
            Map.entry("View.Expand.view", "a hook for Tensor.apply, which has checked the operand"),
            Map.entry("View.Slice.view", "a hook for Tensor.apply, which has checked the operand"),
            Map.entry("View.Unstack.view", "a hook for Tensor.apply, which has checked the operand"),
            Map.entry("Interceptor.", "a hook for the library itself"),
            Map.entry("Backward.", "made by a tape from its own records, like operands of vjp"),
            Map.entry("Philox.", "a hook for backends, in the innermost loop"),
            Map.entry("Chain.", "a hook for backends"),
            Map.entry("Recurrence.operands", "a hook for backends: infer has checked the operands"),
            Map.entry("Convolution.Geometry.out", "a hook for backends: infer has checked the geometry"),
            Map.entry("Pooling.Window.out", "a hook for backends: infer has checked the window"),
            Map.entry("Contraction.Linear.applied", "a hook for the tape, which passes results back"),
            Map.entry("Strides.", "a hook for backends, which pass strides of the tensor's rank"),
            Map.entry("View.view", "a hook for Tensor.apply, which has checked the operand"),
            Map.entry("Elementwise.", "the operations' own inference, which states the number of operands"),
            Map.entry("Scope.open", "a scope that stays open keeps the thread's tensors"));

    private final List<Executable> members = new ArrayList<>();
    private final Map<Class<?>, List<Executable>> makers = new HashMap<>();
    private final Map<String, Integer> seen = new HashMap<>();
    private final Path folder;
    private long peak;

    /** Searches the tensor module. */
    public ApiFuzz() throws IOException {
        this(Map.of(), Tensor.class);
    }

    /**
     * Searches the modules of the given classes. If there are several, the first module is not searched, but provides
     * values for the parameters of the others.
     *
     * @param excluded further members that are not called, by name or its beginning, and the reason
     */
    public ApiFuzz(Map<String, String> excluded, Class<?>... inModules) throws IOException {
        folder = Files.createTempDirectory("api-fuzz");
        folder.toFile().deleteOnExit();
        for (Class<?> c : inModules) {
            for (Class<?> type : types(c)) {
                add(type, excluded, inModules.length == 1 || c != inModules[0]);
            }
        }
        members.sort(Comparator.comparing(Executable::toString));
        makers.values().forEach(m -> m.sort(Comparator.comparing(Executable::toString)));
        for (Class<?> type : List.copyOf(makers.keySet())) {
            List<Executable> plain = makers.get(type).stream()
                    .filter(m -> !Arrays.asList(m.getParameterTypes()).contains(type)).toList();
            if (!plain.isEmpty()) {
                makers.put(type, new ArrayList<>(plain));
            }
        }
    }

    private void add(Class<?> type, Map<String, String> excluded, boolean searched) {
        List<Executable> all = new ArrayList<>(Arrays.asList(type.getDeclaredConstructors()));
        all.addAll(Arrays.asList(type.getDeclaredMethods()));
        for (Executable e : all) {
            String name = ApiValues.name(e);
            boolean open = Modifier.isPublic(e.getModifiers()) && !e.isSynthetic()
                    && Stream.concat(EXCLUDED.keySet().stream(), excluded.keySet().stream())
                    .noneMatch(name::startsWith) && !name.endsWith(".main") && !name.endsWith(".vjp")
                    && !(type.isEnum() && name.endsWith(".valueOf"));
            if (!open || e instanceof Method m && Modifier.isAbstract(m.getModifiers())
                    && !type.isSealed() && !makesSense(m)) {
                continue;
            }
            boolean abstracted = !(e instanceof Method) && Modifier.isAbstract(type.getModifiers());
            if (!abstracted) {
                if (searched) {
                    members.add(e);
                }
                if (!(e instanceof Method m)) {
                    makes(type, e);
                } else if (Modifier.isStatic(m.getModifiers()) && !m.getReturnType().isPrimitive()) {
                    makes(m.getReturnType(), e);
                }
            }
        }
    }

    private static boolean makesSense(Method m) {
        return Modifier.isStatic(m.getModifiers());
    }

    /** Notes that {@code e} makes objects of a type and of its supertypes. */
    private void makes(Class<?> type, Executable e) {
        for (Class<?> t = type; t != null && t != Object.class && t != Record.class; t = t.getSuperclass()) {
            makers.computeIfAbsent(t, k -> new ArrayList<>()).add(e);
            for (Class<?> i : t.getInterfaces()) {
                makes(i, e);
            }
        }
    }

    /** Returns the public types of the exported packages of a class's module. */
    public static List<Class<?>> types(Class<?> of) throws IOException {
        Path place = Path.of(URI.create(of.getProtectionDomain().getCodeSource().getLocation().toString()));
        ModuleDescriptor module = ModuleFinder.of(place).findAll().iterator().next().descriptor();
        List<Class<?>> types = new ArrayList<>();
        try (FileSystem jar = Files.isDirectory(place) ? null : FileSystems.newFileSystem(place)) {
            for (ModuleDescriptor.Exports e : module.exports()) {
                Path folder = (jar == null ? place : jar.getPath("/")).resolve(e.source().replace('.', '/'));
                if (e.isQualified()) {
                    continue;
                }
                try (Stream<Path> files = Files.list(folder)) {
                    for (Path file : files.filter(f -> f.toString().endsWith(".class")).sorted().toList()) {
                        String name = file.getFileName().toString().replace(".class", "");
                        addIfPublic(types, e.source() + "." + name, of.getClassLoader());
                    }
                }
            }
        }
        return types;
    }

    private static void addIfPublic(List<Class<?>> types, String name, ClassLoader loader) {
        try {
            Class<?> type = Class.forName(name, false, loader);
            boolean open = !name.endsWith("-info") && !type.isAnonymousClass() && !type.isLocalClass();
            for (Class<?> c = type; open && c != null; c = c.getDeclaringClass()) {
                open = Modifier.isPublic(c.getModifiers());
            }
            if (open) {
                types.add(type);
            }
        } catch (ClassNotFoundException | NoClassDefFoundError e) {
            // A descriptor is not a class.
        }
    }

    /** Returns the number of constructors and methods that are called. */
    public int members() {
        return members.size();
    }

    @Override
    public String run(long seed) {
        AtomicReference<String> finding = new AtomicReference<>();
        // A thread of its own, with which its scopes, recorders and other thread state end.
        Thread thread = Thread.ofPlatform().start(() -> finding.set(called(seed)));
        try {
            thread.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        Threads.set(1);
        return finding.get();
    }

    private String called(long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        Executable member = members.get(Math.floorMod(seed, members.size()));
        ApiValues values = new ApiValues(random, makers, folder);
        StringBuilder text = new StringBuilder(ApiValues.name(member)).append("(");
        boolean programs = member.getDeclaringClass().getName().contains(".program.");
        try (Scope scope = Scope.open("case")) {
            Interceptor.replace(programs ? Interceptor.NONE : new Watch(0xFF, false));
            Object receiver = null;
            StringBuilder from = new StringBuilder();
            if (member instanceof Method m && !Modifier.isStatic(m.getModifiers())) {
                receiver = values.value(m.getDeclaringClass(), false, 0, from);
                if (Proxy.isProxyClass(receiver.getClass())) {
                    return null;
                }
            }
            Object[] arguments = values.arguments(member, 4, 0, text);
            text.append(")").append(from.isEmpty() ? "" : " of " + from);
            ApiValues.call(member, receiver, arguments);
        } catch (ApiValues.NoValueException | Watch.TooLarge e) {
            return null;
        } catch (InvocationTargetException e) {
            return judged(member, values, e.getCause(), text.toString());
        } catch (TensorException e) {
            return null;
        } catch (RuntimeException | Error e) {
            return judged(member, values, e, text.toString());
        }
        return memory(text.toString());
    }

    private String memory(String text) {
        long now = Device.cpu().memory().peak();
        boolean grown = now > Math.max(peak, MAX_BYTES);
        peak = Math.max(peak, now);
        return grown ? "used " + now + " bytes off the heap\n" + text : null;
    }

    private String judged(Executable member, ApiValues values, Throwable e, String text) {
        boolean typed = isTyped(e) || e instanceof Watch.TooLarge
                || e instanceof NullPointerException && values.nulls || values.functions
                && (e instanceof ClassCastException || e instanceof NullPointerException)
                || Arrays.stream(member.getExceptionTypes()).anyMatch(t -> t.isInstance(e));
        if (typed) {
            return null;
        }
        String kind = e.getClass().getSimpleName() + " from " + ApiValues.name(member);
        if (seen.merge(kind, 1, Integer::sum) > 1) {
            return null;
        }
        StringBuilder trace = new StringBuilder();
        for (int i = 0; i < Math.min(6, e.getStackTrace().length); i++) {
            trace.append("\n    at ").append(e.getStackTrace()[i]);
        }
        return kind + "\n" + text + "\n" + e.toString().lines().findFirst().orElse("") + trace;
    }

    private static boolean isTyped(Throwable e) {
        for (Class<?> c = e.getClass(); c != null; c = c.getSuperclass()) {
            if (c.getSimpleName().equals("StarlingException")) {
                return true;
            }
        }
        return e instanceof TensorException;
    }

    /** Runs seeds; see {@link FuzzRunner#main}. */
    public static void main(String... args) throws Exception {
        FuzzRunner.main(ApiFuzz.class, args);
    }
}
