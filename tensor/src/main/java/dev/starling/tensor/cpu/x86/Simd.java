package dev.starling.tensor.cpu.x86;

/**
 * Vector and mask instructions, by their opcode map, mandatory prefix (0 none, 1 66, 2 F3, 3 F2), bit W and opcode, as
 * in the processor's manual. Names are the manual's without the leading V; a Q or a PD means elements of 8 bytes.
 */
public enum Simd {
    ADDPS(1, 0, 0, 0x58), ADDPD(1, 1, 1, 0x58), SUBPS(1, 0, 0, 0x5C), SUBPD(1, 1, 1, 0x5C),
    MULPS(1, 0, 0, 0x59), MULPD(1, 1, 1, 0x59), DIVPS(1, 0, 0, 0x5E), DIVPD(1, 1, 1, 0x5E),
    MINPS(1, 0, 0, 0x5D), MINPD(1, 1, 1, 0x5D), MAXPS(1, 0, 0, 0x5F), MAXPD(1, 1, 1, 0x5F),
    SQRTPS(1, 0, 0, 0x51), SQRTPD(1, 1, 1, 0x51),
    FMADD132PS(2, 1, 0, 0x98), FMADD132PD(2, 1, 1, 0x98), FMADD213PS(2, 1, 0, 0xA8), FMADD213PD(2, 1, 1, 0xA8),
    FMADD231PS(2, 1, 0, 0xB8), FMADD231PD(2, 1, 1, 0xB8),
    PADDD(1, 1, 0, 0xFE), PADDQ(1, 1, 1, 0xD4), PSUBD(1, 1, 0, 0xFA), PSUBQ(1, 1, 1, 0xFB),
    PMULLD(2, 1, 0, 0x40), PMULLQ(2, 1, 1, 0x40), PABSD(2, 1, 0, 0x1E), PABSQ(2, 1, 1, 0x1F),
    PMINSD(2, 1, 0, 0x39), PMINSQ(2, 1, 1, 0x39), PMAXSD(2, 1, 0, 0x3D), PMAXSQ(2, 1, 1, 0x3D),
    PANDD(1, 1, 0, 0xDB), PANDQ(1, 1, 1, 0xDB),
    PORD(1, 1, 0, 0xEB), PORQ(1, 1, 1, 0xEB), PXORD(1, 1, 0, 0xEF), PXORQ(1, 1, 1, 0xEF),
    /** Shifts by an immediate; the register field holds 6 (left), 2 (right) or 4 (right with sign). */
    PSHIFTD(1, 1, 0, 0x72), PSHIFTQ(1, 1, 1, 0x73), PSRAQ(1, 1, 1, 0x72),
    CMPPS(1, 0, 0, 0xC2), CMPPD(1, 1, 1, 0xC2), PCMPD(3, 1, 0, 0x1F), PCMPQ(3, 1, 1, 0x1F),
    PCMPEQD(1, 1, 0, 0x76), PCMPEQQ(2, 1, 0, 0x29), PCMPGTD(1, 1, 0, 0x66),
    PCMPGTQ(2, 1, 0, 0x37),
    BLENDMPS(2, 1, 0, 0x65), BLENDMPD(2, 1, 1, 0x65), BLENDVPS(3, 1, 0, 0x4A), BLENDVPD(3, 1, 0, 0x4B),
    MOVUPS(1, 0, 0, 0x10), MOVUPD(1, 1, 1, 0x10), STOREUPS(1, 0, 0, 0x11), STOREUPD(1, 1, 1, 0x11),
    MOVAPS(1, 0, 0, 0x28), MOVDQU8(1, 3, 0, 0x6F), STOREDQU8(1, 3, 0, 0x7F),
    MOVQ(1, 2, 1, 0x7E), STOREQ(1, 1, 1, 0xD6), STORESS(1, 2, 0, 0x11),
    STORED(1, 1, 0, 0x7E),
    BROADCASTSS(2, 1, 0, 0x18), BROADCASTSD(2, 1, 1, 0x19), BROADCASTSD_AVX(2, 1, 0, 0x19),
    PMOVSXBD(2, 1, 0, 0x21), PMOVZXBD(2, 1, 0, 0x31), PMOVSXWD(2, 1, 0, 0x23), PMOVSXDQ(2, 1, 0, 0x25),
    PMOVDB(2, 2, 0, 0x31), PMOVDW(2, 2, 0, 0x33), PMOVQD(2, 2, 0, 0x35),
    PTESTMB(2, 1, 0, 0x26),
    CVTPS2PD(1, 0, 0, 0x5A), CVTPD2PS(1, 1, 1, 0x5A), CVTDQ2PS(1, 0, 0, 0x5B), CVTDQ2PD(1, 2, 0, 0xE6),
    CVTQQ2PD(1, 2, 1, 0xE6), CVTQQ2PS(1, 0, 1, 0x5B), CVTTPD2QQ(1, 1, 1, 0x7A), CVTTPS2QQ(1, 1, 0, 0x7A),
    CVTSD2SS(1, 3, 1, 0x5A), MOVMSKPS(1, 0, 0, 0x50), MOVMSKPD(1, 1, 0, 0x50),
    PMULUDQ(1, 1, 0, 0xF4), PSHUFB(2, 1, 0, 0x00), SHUFPS(1, 0, 0, 0xC6), EXTRACTF128(3, 1, 0, 0x19),
    EXTRACTF64X4(3, 1, 1, 0x1B), EXTRACTF32X4(3, 1, 0, 0x19),
    PUNPCKLDQ(1, 1, 0, 0x62), PUNPCKLQDQ(1, 1, 0, 0x6C),
    UNPCKLPS(1, 0, 0, 0x14), UNPCKHPS(1, 0, 0, 0x15), UNPCKLPD(1, 1, 1, 0x14), UNPCKHPD(1, 1, 1, 0x15),
    BROADCASTF32X4(2, 1, 0, 0x1A), INSERTF128(3, 1, 0, 0x18),
    MASKMOVPS(2, 1, 0, 0x2C), STOREMASKPS(2, 1, 0, 0x2E), MOVD(1, 1, 0, 0x6E), PBROADCASTD(2, 1, 0, 0x58),
    KANDW(1, 0, 0, 0x41), KANDNW(1, 0, 0, 0x42), KNOTW(1, 0, 0, 0x44), KORW(1, 0, 0, 0x45), KXORW(1, 0, 0, 0x47),
    KMOVW(1, 0, 0, 0x90), KMOVQ(1, 0, 1, 0x90), STOREKQ(1, 0, 1, 0x91), KMOVD(1, 3, 0, 0x92),
    KORTESTW(1, 0, 0, 0x98), KORTESTB(1, 1, 0, 0x98);

    final int map;
    final int prefix;
    final int wide;
    final int opcode;

    Simd(int map, int prefix, int wide, int opcode) {
        this.map = map;
        this.prefix = prefix;
        this.wide = wide;
        this.opcode = opcode;
    }
}
