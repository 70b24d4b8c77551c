package main

import (
	"crypto/ecdsa"
	"crypto/x509"
	"net"
	"testing"
	"time"
)

func TestTheServingCertificateIsValidForItsAddress(t *testing.T) {
	now := time.Now()
	made, err := selfSignedCertificate("node-1", net.IPv4(127, 0, 0, 1), now)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(made.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := certificate.PublicKey.(*ecdsa.PublicKey); !ok {
		t.Errorf("the key is a %T, expected ECDSA", certificate.PublicKey)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1", CurrentTime: now}); err != nil {
		t.Error(err)
	}
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.2", CurrentTime: now}); err == nil {
		t.Error("it is valid for an address it was not made for")
	}
}
