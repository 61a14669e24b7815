package kubemq

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSFiles name PEM files. CA replaces the system's certificate authorities;
// Cert and Key are the client's own certificate (mTLS) and come together.
type TLSFiles struct {
	CA, Cert, Key string
}

// tlsConfig is nil for a plaintext connection.
func (c Config) tlsConfig() (*tls.Config, error) {
	if c.TLS == nil && c.TLSFiles == (TLSFiles{}) {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS != nil {
		config = c.TLS.Clone()
	}
	if file := c.TLSFiles.CA; file != "" {
		pem, err := os.ReadFile(file) //nolint:gosec // the user names the file
		if err != nil {
			return nil, fmt.Errorf("kubemq: read the CA certificate: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("kubemq: no certificate in CA file %q", file)
		}
	}
	if (c.TLSFiles.Cert == "") != (c.TLSFiles.Key == "") {
		return nil, errors.New("kubemq: a client certificate needs both the certificate and the key file")
	}
	if c.TLSFiles.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.TLSFiles.Cert, c.TLSFiles.Key)
		if err != nil {
			return nil, fmt.Errorf("kubemq: load the client certificate: %w", err)
		}
		config.Certificates = append(config.Certificates, pair)
	}
	return config, nil
}
