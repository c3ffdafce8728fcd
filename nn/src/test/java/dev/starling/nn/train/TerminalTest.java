package dev.starling.nn.train;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

class TerminalTest {
    private static final String DEVICE = "starling.terminal";
    private static final int READ_WRITE_NOT_OURS = 0x102;
    private static final long SET_WINDOW_SIZE = 0x5414;

    private static MethodHandle function(String name, FunctionDescriptor descriptor, Linker.Option... options) {
        Linker linker = Linker.nativeLinker();
        return linker.downcallHandle(linker.defaultLookup().findOrThrow(name), descriptor, options);
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void readsTheWidthOfARealTerminalEachTime() throws Throwable {
        FunctionDescriptor ofDescriptor = FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT);
        MethodHandle setSize = function("ioctl", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT,
                ValueLayout.JAVA_LONG, ValueLayout.ADDRESS), Linker.Option.firstVariadicArg(2));
        int master = (int) function("posix_openpt", ofDescriptor).invokeExact(READ_WRITE_NOT_OURS);
        String before = System.getProperty(DEVICE);
        try (Arena arena = Arena.ofConfined()) {
            assertThat(master).isNotNegative();
            assertThat((int) function("unlockpt", ofDescriptor).invokeExact(master)).isZero();
            MemorySegment name = arena.allocate(64);
            assertThat((int) function("ptsname_r", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT,
                    ValueLayout.ADDRESS, ValueLayout.JAVA_LONG)).invokeExact(master, name, 64L)).isZero();
            System.setProperty(DEVICE, name.getString(0));
            for (int columns : new int[] {40, 120, 57, 1000}) {
                MemorySegment size = arena.allocateFrom(ValueLayout.JAVA_SHORT, (short) 24, (short) columns,
                        (short) 0, (short) 0);
                assertThat((int) setSize.invokeExact(master, SET_WINDOW_SIZE, size)).isZero();
                assertThat(Terminal.columns()).isEqualTo(columns);
            }
        } finally {
            assertThat((int) function("close", ofDescriptor).invokeExact(master)).isZero();
            if (before == null) {
                System.clearProperty(DEVICE);
            } else {
                System.setProperty(DEVICE, before);
            }
        }
    }

    @Test
    void usesTheUsualWidthIfTheVariableGivesNone() {
        assertThat(Terminal.usualColumns(null)).isEqualTo(80);
        assertThat(Terminal.usualColumns("")).isEqualTo(80);
        assertThat(Terminal.usualColumns("-3")).isEqualTo(80);
        assertThat(Terminal.usualColumns("0")).isEqualTo(80);
        assertThat(Terminal.usualColumns("99999999999")).isEqualTo(80);
        assertThat(Terminal.usualColumns("132")).isEqualTo(132);
    }

    @Test
    void foldsBetweenWords() {
        assertThat(Terminal.fold("one two three four", 10).lines()).containsExactly("one two", "  three", "  four");
        assertThat(Terminal.fold("one two three four", 80)).isEqualTo("one two three four");
        assertThat(Terminal.fold("a-word-too-long-for-it x", 10).lines()).containsExactly("a-word-too-long-for-it",
                "  x");
    }
}
