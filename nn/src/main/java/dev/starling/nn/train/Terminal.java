package dev.starling.nn.train;

import java.io.Console;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * The terminal that shows the standard error of this process.
 *
 * <p>The system property {@code starling.terminal} names the terminal's device, for example {@code /dev/pts/3}, if
 * standard error is a pipe whose other end writes to the terminal. An empty value means that there is no terminal.
 * {@code ./starling} sets the property. Without it, standard error itself is examined.
 *
 * <p>The width comes from the operating system (Linux and macOS). If that has no answer, it comes from the variable
 * {@code COLUMNS}, and by default it is {@value #USUAL_COLUMNS}.
 */
public final class Terminal {
    /** The width of a terminal that does not report its width. */
    static final int USUAL_COLUMNS = 80;
    private static final String DEVICE = "starling.terminal";
    private static final boolean LINUX = "Linux".equals(System.getProperty("os.name"));
    private static final boolean MAC = System.getProperty("os.name").startsWith("Mac");
    /** The ioctl request for {@code struct winsize}: rows, columns and two more numbers, of 16 bits each. */
    private static final long GET_WINDOW_SIZE = LINUX ? 0x5413 : 0x40087468;
    /** Flags of open: read only, without making the device the controlling terminal of this session. */
    private static final int OPEN = LINUX ? 0x100 : 0x20000;
    private static final int STANDARD_OUTPUT = 1;
    private static final int STANDARD_ERROR = 2;

    private Terminal() {
    }

    /** Returns whether standard error is a terminal that can redraw a line; false with {@code TERM=dumb}. */
    public static boolean isStandardError() {
        String term = System.getenv("TERM");
        String device = System.getProperty(DEVICE);
        if ("dumb".equals(term) || device != null) {
            return device != null && !device.isEmpty() && !"dumb".equals(term);
        }
        if (isNative()) {
            return Native.columns(STANDARD_ERROR) >= 0;
        }
        Console console = System.console();
        return term != null && console != null && console.isTerminal();
    }

    /** Returns whether standard output is a terminal. */
    public static boolean isStandardOutput() {
        return isNative() && Native.columns(STANDARD_OUTPUT) >= 0;
    }

    /**
     * Returns the current width of the terminal. The call takes microseconds; the user may change the width at any
     * time.
     */
    public static int columns() {
        int columns = isNative() ? nativeColumns() : 0;
        return columns > 0 ? columns : usualColumns(System.getenv("COLUMNS"));
    }

    /**
     * Breaks a text between words into lines that leave the last of {@code columns} free. All lines but the first are
     * indented.
     */
    public static String fold(String text, int columns) {
        StringBuilder folded = new StringBuilder(text.length() + 16);
        int column = 0;
        for (String word : text.split(" ")) {
            int width = TextWidth.of(word);
            if (column > 0 && column + 1 + width > columns - 1) {
                folded.append(System.lineSeparator()).append("  ").append(word);
                column = 2 + width;
            } else {
                folded.append(column > 0 ? " " : "").append(word);
                column += (column > 0 ? 1 : 0) + width;
            }
        }
        return folded.toString();
    }

    /** Returns the width given by a variable, or the usual width if it gives none. */
    static int usualColumns(String variable) {
        return variable != null && variable.matches("[1-9][0-9]{0,3}") ? Integer.parseInt(variable) : USUAL_COLUMNS;
    }

    private static int nativeColumns() {
        String device = System.getProperty(DEVICE);
        int columns = device == null || device.isEmpty() ? 0 : Native.columns(device);
        for (int descriptor = STANDARD_ERROR; descriptor >= 0 && columns <= 0; descriptor--) {
            columns = Native.columns(descriptor);
        }
        return columns;
    }

    /** Avoids a warning of the JVM: a module without native access uses no native calls for the width. */
    private static boolean isNative() {
        return (LINUX || MAC) && Terminal.class.getModule().isNativeAccessEnabled();
    }

    /** Functions of the C library, looked up on first use. */
    private static final class Native {
        private static final Linker.Option TWO_FIXED = Linker.Option.firstVariadicArg(2);
        private static final MethodHandle IOCTL = function("ioctl", FunctionDescriptor.of(ValueLayout.JAVA_INT,
                ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.ADDRESS), TWO_FIXED);
        private static final MethodHandle OPEN_FILE = function("open", FunctionDescriptor.of(ValueLayout.JAVA_INT,
                ValueLayout.ADDRESS, ValueLayout.JAVA_INT), TWO_FIXED);
        private static final MethodHandle CLOSE = function("close", FunctionDescriptor.of(ValueLayout.JAVA_INT,
                ValueLayout.JAVA_INT));

        private static MethodHandle function(String name, FunctionDescriptor descriptor, Linker.Option... options) {
            Linker linker = Linker.nativeLinker();
            return linker.downcallHandle(linker.defaultLookup().findOrThrow(name), descriptor, options);
        }

        /** Returns the width of the terminal at a device path, or -1 if it is not a terminal. */
        static int columns(String device) {
            try (Arena arena = Arena.ofConfined()) {
                int descriptor = (int) OPEN_FILE.invokeExact(arena.allocateFrom(device), OPEN);
                if (descriptor < 0) {
                    return -1;
                }
                try {
                    return columns(descriptor);
                } finally {
                    int ignored = (int) CLOSE.invokeExact(descriptor);
                }
            } catch (Throwable e) {
                throw new AssertionError(e);
            }
        }

        /**
         * Returns the width of the terminal of a descriptor, 0 if it does not report one, or -1 if it is not a
         * terminal.
         */
        static int columns(int descriptor) {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment size = arena.allocate(8, 2);
                int failed = (int) IOCTL.invokeExact(descriptor, GET_WINDOW_SIZE, size);
                return failed != 0 ? -1 : Short.toUnsignedInt(size.get(ValueLayout.JAVA_SHORT, 2));
            } catch (Throwable e) {
                throw new AssertionError(e);
            }
        }
    }
}
